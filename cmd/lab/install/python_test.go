package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutPythonTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(cacheVariable, t.TempDir())
	_, err := Python(t.Context(), Librdkafka)
	if !errors.Is(err, ErrNoPython) || !strings.Contains(err.Error(), "python3-venv") {
		t.Errorf("got %v, want ErrNoPython with advice", err)
	}
}

func TestWithoutACompilerTheErrorSaysWhatToInstall(t *testing.T) {
	d, err := Kafka(t.Context(), Newest)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	_, err = d.Program(t.Context(), "Nothing", []byte("class Nothing {}"))
	if !errors.Is(err, ErrNoCompiler) || !strings.Contains(err.Error(), "jdk") {
		t.Errorf("got %v, want ErrNoCompiler with advice", err)
	}
}

func TestAFailedInstallOfAPackageLeavesNoFolderAndNamesTheLog(t *testing.T) {
	cache, dir := t.TempDir(), t.TempDir()
	t.Setenv(cacheVariable, cache)
	// It is found, makes an environment whose interpreter is itself, and fails there.
	script := "#!/bin/sh\ncase \"$*\" in\n*ensurepip*) echo $0; echo 3.11;;\n*'-m venv'*) mkdir -p $3/bin; cp $0 $3/bin/python;;\n*) echo could not reach https://registry.example/secret; exit 1;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	_, err := Python(t.Context(), "nothing==1")
	if err == nil || strings.Contains(err.Error(), "registry.example") || !strings.Contains(err.Error(), cache) {
		t.Fatalf("got %v, want the name of a log and no registry", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "nothing-1-*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || filepath.Ext(left[0]) != ".log" {
		t.Errorf("left behind: %v, want the log alone", left)
	}
}
