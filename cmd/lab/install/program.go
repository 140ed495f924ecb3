package install

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"klink/cmd/lab/filelock"
)

// ErrNoCompiler says that there is no javac.
var ErrNoCompiler = errors.New("no Java compiler")

const compilerAdvice = "install a JDK (17 or newer), on Debian or Ubuntu: apt-get install openjdk-17-jdk-headless"

// compilerPackages are tried in this order, as javaPackages are.
var compilerPackages = []string{"openjdk-17-jdk-headless", "openjdk-21-jdk-headless", "default-jdk-headless"}

// Program is a Java class of our own, compiled against one Kafka version.
type Program struct {
	kafka *Distribution
	main  string
	jar   string
}

// Program compiles a class that needs nothing but Java and Kafka's jars, once
// for each text of its source: the jar is kept beside Kafka's. Where there is no
// compiler it is installed as EnsureJava does that; the error wraps
// ErrNoCompiler.
func (d *Distribution) Program(ctx context.Context, main string, source []byte) (*Program, error) {
	sum := sha256.Sum256(append([]byte(d.java.version), source...))
	p := &Program{kafka: d, main: main, jar: filepath.Join(d.Dir, strings.ToLower(main)+"-"+hex.EncodeToString(sum[:6])+".jar")}
	if _, err := os.Stat(p.jar); err == nil {
		return p, nil
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(filepath.Dir(d.Dir), ".kafka-"+d.Version+".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(p.jar); !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if err := p.compile(ctx, source); err != nil {
		return nil, fmt.Errorf("compile %s: %w", main, err)
	}
	return p, nil
}

// compile makes the jar (I1).
func (p *Program) compile(ctx context.Context, source []byte) error {
	javac, err := ensureCompiler(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "klink-javac-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, classes := filepath.Join(dir, p.main+".java"), filepath.Join(dir, "classes")
	if err := os.WriteFile(path, source, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, javac, "-encoding", "UTF-8", "-proc:none", "-d", classes, path)
	cmd.Env = append(os.Environ(), "CLASSPATH="+p.kafka.classPath)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("javac: %w: %s", err, out)
	}
	// A fixed name: what a killed process left there is written over by the next
	// holder of the lock.
	staged, err := os.Create(p.jar + ".part")
	if err != nil {
		return err
	}
	w := zip.NewWriter(staged)
	if err := errors.Join(w.AddFS(os.DirFS(classes)), w.Close(), staged.Close()); err != nil {
		return err
	}
	return os.Rename(staged.Name(), p.jar)
}

// Command prepares a run of the program.
func (p *Program) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := p.kafka.Command(ctx, quick, p.main, args...)
	// Appended, so that the class archive still fits.
	cmd.Env = append(os.Environ(), "CLASSPATH="+p.kafka.classPath+string(os.PathListSeparator)+p.jar)
	return cmd
}

func ensureCompiler(ctx context.Context) (string, error) {
	if javac := findCompiler(); javac != "" {
		return javac, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "", fmt.Errorf("%w; %s", ErrNoCompiler, compilerAdvice)
	}
	if err := installFirst(ctx, apt, compilerPackages); err != nil {
		return "", fmt.Errorf("%w; %w; %s", ErrNoCompiler, err, compilerAdvice)
	}
	if javac := findCompiler(); javac != "" {
		return javac, nil
	}
	return "", fmt.Errorf("after apt-get install: %w; %s", ErrNoCompiler, compilerAdvice)
}

// findCompiler looks where findJava does; "" is nowhere.
func findCompiler() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidate := filepath.Join(home, "bin", "javac")
		if _, err := os.Stat(candidate); err == nil {
			return candidate
		}
	}
	javac, err := exec.LookPath("javac")
	if err != nil {
		return ""
	}
	return javac
}
