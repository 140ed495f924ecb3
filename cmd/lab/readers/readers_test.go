package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestLinesOfAReader(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         int // lines; -1 is an error
	}{
		{"none", "END\n", 0},
		{"two", "t 0 5 " + digest + " - value\nt 1 7 " + digest + " " + digest + " null\nEND\n", 2},
		{"cut short", "t 0 5 " + digest + " - value\n", -1},
		{"nothing at all", "", -1},
		{"a field missing", "t 0 5 " + digest + " value\nEND\n", -1},
		{"no digest", "t 0 5 abc - value\nEND\n", -1},
		{"no offset", "t 0 x " + digest + " - value\nEND\n", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "records")
			if err := os.WriteFile(path, []byte(c.output), 0o644); err != nil {
				t.Fatal(err)
			}
			var lines []Line
			err := parse(path, func(l Line) error { lines = append(lines, l); return nil })
			if (err != nil) != (c.want < 0) || err == nil && len(lines) != c.want {
				t.Fatalf("%d lines, %v, want %d", len(lines), err, c.want)
			}
			if c.want == 2 && (lines[0].Key != "" || lines[0].Tombstone || lines[1].Key != digest || !lines[1].Tombstone || lines[1].Partition != 1 || lines[1].Offset != 7) {
				t.Errorf("%+v", lines)
			}
		})
	}
}

func TestAFailedReaderShowsItsLog(t *testing.T) {
	job := Job{Bootstrap: []string{"a:1", "b:2"}, Isolation: "read_committed", Ranges: []Range{{"t", 3, 4, 5}}}
	err := run(t.Context(), job, func(args []string) *exec.Cmd {
		return exec.Command("sh", append([]string{"-c", `echo "$@"; exit 3`}, args...)...)
	}, func(Line) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "a:1,b:2 read_committed t 3 4 5") {
		t.Errorf("got %v, want what the program wrote", err)
	}
}
