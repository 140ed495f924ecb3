package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// room is what one package, or all below it, may import of klink. Imports point
// one way: protocol bytes and crossing values are leaves, the source side and
// the target side meet only in them, and the shell ties all together.
type room struct {
	path   string // a trailing /... means the package and all below it
	may    []string
	reason string
}

// rooms is read from top to bottom; the first that fits a package holds.
var rooms = []room{
	{"fetcher/batch", nil, "protocol bytes are a leaf"},
	{"fetcher/feed", nil, "the values that cross are a leaf"},
	{"fetcher/leaders", nil, "the view of one cluster is a leaf that both sides use"},
	{"fetcher/gather", nil, "bringing questions together is a leaf that both sides use"},
	{"fetcher", []string{"fetcher/..."}, "the source side knows nothing of the target"},
	{"linker/state", nil, "names, tables and reports are pure"},
	{"linker/ledger", nil, "names of what is not a copy are pure"},
	{"linker/intent", nil, "what operators want is a pure fold of their commands"},
	{"linker/admit", []string{"fetcher/feed", "linker/control", "linker/intent", "linker/state"}, "what is refused by the record is a function of values, the same for run and plan"},
	{"linker/plan", []string{"fetcher/batch", "fetcher/feed", "linker/state", "linker/ledger"}, "decisions are pure: no I/O comes in through an import"},
	{"linker/drift", []string{"fetcher/batch", "linker/plan", "translate/exact"}, "decisions are pure: no I/O comes in through an import"},
	{"linker/reverse", []string{"fetcher/batch", "fetcher/feed", "linker/appender", "linker/control", "linker/intent", "linker/ledger", "linker/plan", "linker/remote", "linker/state", "linker/topics"}, "the way home reads through ports and knows no data path"},
	{"linker/switchover", []string{"fetcher/batch", "fetcher/feed", "linker/appender", "linker/control", "linker/intent", "linker/ledger", "linker/remote", "linker/state", "linker/topics", "translate/exact", "translate/mm2"}, "promote and failover read and write through ports and know no data path"},
	{"linker/ownlog", []string{"fetcher/leaders", "linker/remote", "linker/state"}, "it is a log and knows nothing of what its records mean"},
	{"linker/copies", []string{"fetcher/batch", "fetcher/feed", "linker/drift", "linker/maps", "translate/exact"}, "it reads through ports what the mirror wrote, and knows no data path"},
	{"linker/maps", []string{"fetcher/feed", "linker/ownlog", "linker/remote", "linker/state", "translate/exact"}, "it stores maps and knows nothing of who makes them"},
	{"linker/groups/commits", []string{"fetcher/batch", "fetcher/leaders", "linker/remote", "linker/state"}, "it follows a log and knows nothing of what is done with it"},
	{"translate/exact", nil, "where copies lie is pure"},
	{"translate/mm2", nil, "bytes, names and rules of MirrorMaker 2 are a leaf"},
	{"translate", []string{"translate/..."}, "it is a library: clusters come in as clients, and maps as values"},
	{"translate/takeover", []string{"translate/exact"}, "where another mirror left off follows from values, and from logs that it is given"},
	{"linker/...", []string{"fetcher/batch", "fetcher/feed", "fetcher/gather", "fetcher/leaders", "linker/...", "translate/..."}, "the target side declares what it needs of the source side in ports.go"},
	{"comparator", []string{"fetcher/batch", "fetcher/leaders"}, "the audit shares no code with what it audits but the reader of batches"},
	{"contrast", []string{"cmd/lab"}, "modes are reached through the interface that contrast declares, and judged from outside"},
	{"cmd/lab/...", []string{"cmd/lab/..."}, "the clusters and judges of tests share no code with what they judge"},
	{"cmd/demo", []string{"cmd/lab/...", "cmd/config", "cmd/telemetry", "linker/state"}, "the demo is given the daemon as klink run builds it, and judges it from outside"},
	{"cmd/app/...", []string{"..."}, "the wiring knows every room"},
	{"cmd/klink", []string{"cmd/app"}, "main only starts the app"},
	{"cmd/...", []string{"cmd/config", "cmd/kafka", "cmd/httpd", "cmd/telemetry", "cmd/show", "cmd/spell", "linker/state"}, "the shell's parts do not know the data path"},
	{"e2e/...", []string{"..."}, "whole-system tests may use all"},
}

type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	GoFiles      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,TestImports,XTestImports", "klink/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, stderr.String())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func fits(pattern, path string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

// TestImportsPointOneWay holds the layout; changing a rule is a change of
// design.
func TestImportsPointOneWay(t *testing.T) {
	all := packages(t)
	if len(all) < 10 {
		t.Fatalf("only %d packages listed", len(all))
	}
	for _, p := range all {
		path := strings.TrimPrefix(p.ImportPath, "klink/")
		i := slices.IndexFunc(rooms, func(r room) bool { return fits(r.path, path) })
		if i < 0 {
			t.Errorf("%s stands in no room; rooms are listed in this file", path)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, "klink/")
			if ours && !slices.ContainsFunc(rooms[i].may, func(m string) bool { return fits(m, to) }) {
				t.Errorf("%s imports %s: %s", path, to, rooms[i].reason)
			}
		}
		if slices.Contains(p.Imports, "testing") && path != "cmd/lab/labtest" {
			t.Errorf("%s imports testing outside its tests", path)
		}
	}
}

// clientCalls are kgo's own consumer and producer; klink's data path uses raw
// requests alone, because those two hide batches, offsets and outcomes.
var clientCalls = regexp.MustCompile(`\b(ConsumeTopics|ConsumePartitions|ConsumerGroup|AddConsumePartitions|PollFetches|PollRecords|ProduceSync|TryProduce|\.Produce)\(`)

// TestNoClientOnTheDataPath reads the sources of every package that moves
// records.
func TestNoClientOnTheDataPath(t *testing.T) {
	onPath := []string{"fetcher/...", "linker", "linker/plan", "linker/appender"}
	read := 0
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "klink/")
		if !slices.ContainsFunc(onPath, func(m string) bool { return fits(m, path) }) {
			continue
		}
		for _, f := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			read++
			if m := clientCalls.Find(src); m != nil {
				t.Errorf("%s/%s uses kgo's consumer or producer: %s", path, f, m)
			}
		}
	}
	if read < 10 {
		t.Fatalf("only %d files read", read)
	}
}

// TestEveryPackageSaysWhatItPromises: a doc.go each.
func TestEveryPackageSaysWhatItPromises(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, "klink/")
		if len(p.GoFiles) > 0 && path != "cmd/klink" && !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go", path)
		}
	}
}
