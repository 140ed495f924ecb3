package install

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestJavaRelease(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
		ok   bool
	}{
		{`openjdk version "17.0.15" 2025-04-15`, 17, true},
		{`java version "1.8.0_402"`, 8, true},
		{`openjdk version "25" 2025-09-16`, 25, true},
		{"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21.0.2\" 2024-01-16", 21, true},
		{"not java at all", 0, false},
	} {
		got, ok := javaRelease(c.text)
		if got != c.want || ok != c.ok {
			t.Errorf("javaRelease(%q) = %d, %t, want %d, %t", c.text, got, ok, c.want, c.ok)
		}
	}
}

func TestKafkaIsOnThisMachine(t *testing.T) {
	ctx := t.Context()
	for _, version := range []string{Newest, Oldest} {
		d, err := Kafka(ctx, version)
		if err != nil {
			t.Fatal(err)
		}
		if !d.complete() {
			t.Errorf("Kafka %s: the folder %s is not complete after an install", version, d.Dir)
		}
		out, err := d.Command(ctx, quick, "kafka.Kafka", "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), version) {
			t.Errorf("Kafka %s calls itself %q", version, out)
		}
	}
}

func TestAFailedDownloadLeavesNoFolderAndNamesTheLog(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(cacheVariable, cache)
	fakeMaven(t, "#!/bin/sh\necho could not reach https://registry.example/secret\nexit 1\n")
	_, err := Kafka(t.Context(), "4.3.1")
	if err == nil {
		t.Fatal("an install with a failing Maven succeeded")
	}
	log := filepath.Join(cache, "kafka-4.3.1-maven.log")
	if !strings.Contains(err.Error(), log) || strings.Contains(err.Error(), "registry.example") {
		t.Errorf("the error should name %s and no registry: %v", log, err)
	}
	if text, rerr := os.ReadFile(log); rerr != nil || !strings.Contains(string(text), "could not reach") {
		t.Errorf("Maven's output is not in its log: %q, %v", text, rerr)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*kafka-4.3.1*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			t.Errorf("%s was left behind", path)
		}
	}
}

func TestAMavenThatCopiesTooLittleIsRefused(t *testing.T) {
	t.Setenv(cacheVariable, t.TempDir())
	fakeMaven(t, "#!/bin/sh\nexit 0\n")
	if _, err := Kafka(t.Context(), "4.3.1"); err == nil || !strings.Contains(err.Error(), "missing among the jars") {
		t.Errorf("got %v, want a complaint about missing jars", err)
	}
}

func TestAVersionMustLookLikeOne(t *testing.T) {
	for _, version := range []string{"", "latest", "4.3.1/../..", "4"} {
		if _, err := Kafka(t.Context(), version); err == nil {
			t.Errorf("version %q was taken", version)
		}
	}
}

func TestWithoutJavaTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	t.Setenv(cacheVariable, t.TempDir())
	_, err := Kafka(t.Context(), "4.3.1")
	if !errors.Is(err, ErrNoJava) || !strings.Contains(err.Error(), "openjdk-17") {
		t.Errorf("got %v, want ErrNoJava with advice", err)
	}
}

func TestAptInstallsWhatIsMissing(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("only root on Linux may install packages")
	}
	for _, c := range []struct {
		name, script string
		err          error
	}{
		{"it does", `case "$*" in *install*) printf '#!/bin/sh\necho version \\"17.0.1\\"\n' >DIR/java; cp DIR/java DIR/mvn; /bin/chmod +x DIR/java DIR/mvn;; esac`, nil},
		{"it fails", "echo no such package; exit 100", ErrNoJava},
		{"it installs nothing", "exit 0", ErrNoJava},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			t.Setenv("JAVA_HOME", "")
			t.Setenv("TMPDIR", t.TempDir()) // for the logs of a failing apt-get
			for name, target := range map[string]string{"cp": "/bin/cp"} {
				if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			script := "#!/bin/sh\n" + strings.ReplaceAll(c.script, "DIR", dir) + "\n"
			if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			err := EnsureJava(t.Context())
			if !errors.Is(err, c.err) || c.err != nil && !strings.Contains(err.Error(), "openjdk-17") {
				t.Errorf("got %v, want %v and what to install", err, c.err)
			}
		})
	}
}

// fakeMaven puts a script named mvn in front of the real one.
func fakeMaven(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mvn"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}
