package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"klink/cmd/lab/install"
)

// A version that cannot be got is told before anything is measured.
func TestContrastOnAKafkaThatIsNotThere(t *testing.T) {
	tools := t.TempDir()
	for name, script := range map[string]string{"java": `echo 'openjdk version "17.0.1"'`, "mvn": "exit 1"} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KLINK_LAB_CACHE", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	t.Setenv("PATH", tools)
	r := execute(t.Context(), contrasting(), "contrast", "--kafka", "9.9.9")
	if r.code != 1 || !strings.HasPrefix(r.err, "klink: contrast: --kafka: Kafka 9.9.9 could not be got: Maven: exit status 1 (is this version published") ||
		!strings.HasSuffix(r.err, "; known to work: "+install.Newest+", "+install.Oldest+"\n") || r.out != "" {
		t.Errorf("%+v", r)
	}
	r = execute(t.Context(), contrasting(), "contrast", "--kafka", "latest")
	if r.code != 2 || !strings.Contains(r.err, `--kafka: no Kafka version: "latest"; want numbers and dots, as in `+install.Newest+"; known to work: "+install.Newest+", "+install.Oldest+"; see klink") {
		t.Errorf("%+v", r)
	}
}
