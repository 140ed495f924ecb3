package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"klink/cmd/config"
	"klink/comparator"
)

// TestFilesAreTriedBeforeTheWork: a comparison of hours does not end with a report, or
// with what was done, that cannot be written.
func TestFilesAreTriedBeforeTheWork(t *testing.T) {
	file := configFile(t, "", "east")
	parts := Parts{Compare: func(context.Context, *config.Config, CompareRequest) (comparator.Result, error) {
		t.Error("compared")
		return comparator.Result{}, nil
	}}
	for flag, path := range map[string]string{
		"--report": filepath.Join(file, "below"),
		"--resume": filepath.Join(t.TempDir(), "missing", "left.json"),
	} {
		r := execute(t.Context(), parts, "compare", "-c", file, flag, path)
		if r.code != 2 || !strings.HasPrefix(r.err, "klink: compare: "+flag+": ") || r.out != "" {
			t.Errorf("%s: %+v", flag, r)
		}
	}
}

// TestReplaceFileKeepsTheLastGoodOne where the new one cannot be written.
func TestReplaceFileKeepsTheLastGoodOne(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "compare.json")
	write := func(text string, err error) error {
		return replaceFile(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		})
	}
	full := errors.New("no space left on device")
	if err := write("good", nil); err != nil {
		t.Fatal(err)
	}
	if err := write("ba", full); !errors.Is(err, full) {
		t.Errorf("ended with %v", err)
	}
	text, err := os.ReadFile(path)
	there, _ := os.ReadDir(folder)
	if string(text) != "good" || err != nil || len(there) != 1 {
		t.Errorf("%q, %v, %v", text, err, there)
	}
}
