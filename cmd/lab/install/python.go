package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"klink/cmd/lab/filelock"
)

// Librdkafka is the Python package that brings librdkafka along, as its binary
// wheels hold it.
const Librdkafka = "confluent-kafka==2.16.0"

// ErrNoPython says that there is no Python 3 that can make a virtual environment.
var ErrNoPython = errors.New("no usable Python")

const pythonAdvice = "install Python 3 with venv, on Debian or Ubuntu: apt-get install python3-venv"

// Python makes sure that a package, named with its version as pip has it, is on
// this machine, in a virtual environment of its own under the cache folder, and
// returns the interpreter that sees it. The first call takes some seconds and
// needs a package index; later calls only look. Where there is no Python it is
// installed as EnsureJava does that; the error wraps ErrNoPython.
func Python(ctx context.Context, requirement string) (interpreter string, err error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	base, version, err := ensurePython(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(base + "\n" + version))
	name := strings.ReplaceAll(requirement, "==", "-") + "-" + hex.EncodeToString(sum[:6])
	dir := filepath.Join(root, name)
	interpreter = filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(interpreter); err == nil {
		return interpreter, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(root, "."+name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(interpreter); err == nil {
		return interpreter, nil
	}
	if err := fillEnvironment(ctx, base, dir, requirement); err != nil {
		return "", fmt.Errorf("install %s: %w", requirement, err)
	}
	return interpreter, nil
}

// fillEnvironment makes the folder under another name and renames it (I1): an
// environment finds its packages from where its interpreter lies. Only the
// holder of the folder's lock may call it.
func fillEnvironment(ctx context.Context, base, dir, requirement string) error {
	staged := dir + ".part"
	if err := os.RemoveAll(staged); err != nil { // of a process that was killed
		return err
	}
	defer os.RemoveAll(staged)
	interpreter := filepath.Join(staged, "bin", "python")
	for _, argv := range [][]string{
		{base, "-m", "venv", staged},
		{interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", requirement},
	} {
		if err := runLogged(ctx, dir+".log", argv); err != nil {
			return err
		}
	}
	return os.Rename(staged, dir)
}

// runLogged keeps the output of a command that fails in a file, since it may
// name registries (I4).
func runLogged(ctx context.Context, log string, argv []string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", strings.Join(argv[1:3], " "), err)
	if werr := os.WriteFile(log, out, 0o644); werr != nil {
		return fmt.Errorf("%w (its output could not be kept: %w)", err, werr)
	}
	return fmt.Errorf("%w (its output: %s)", err, log)
}

func ensurePython(ctx context.Context) (path, version string, err error) {
	path, version, missing := findPython(ctx)
	if missing == nil {
		return path, version, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "", "", fmt.Errorf("%w; %s", missing, pythonAdvice)
	}
	if err := installFirst(ctx, apt, []string{"python3-venv"}); err != nil {
		return "", "", fmt.Errorf("%w; %w; %s", missing, err, pythonAdvice)
	}
	if path, version, err = findPython(ctx); err != nil {
		return "", "", fmt.Errorf("after apt-get install: %w; %s", err, pythonAdvice)
	}
	return path, version, nil
}

// findPython wants the modules that make a virtual environment with pip in it:
// Debian ships them apart.
func findPython(ctx context.Context) (path, version string, err error) {
	if path, err = exec.LookPath("python3"); err != nil {
		return "", "", fmt.Errorf("%w: python3 is not in PATH", ErrNoPython)
	}
	out, err := exec.CommandContext(ctx, path, "-c", "import sys, venv, ensurepip; print(sys.executable); print(sys.version)").CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%w: %w: %s", ErrNoPython, err, out)
	}
	path, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return path, version, nil
}
