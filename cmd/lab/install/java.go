package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// MinJava is the oldest Java release that runs every Kafka used here
// (Kafka 4.0 and later need 17 for brokers).
const MinJava = 17

var (
	// ErrNoJava says that there is no Java of at least MinJava.
	ErrNoJava = errors.New("no usable Java")
	// ErrNoMaven says that Maven is missing while jars have to be fetched.
	ErrNoMaven = errors.New("no Maven")
)

// advice names what to install by hand where it cannot be done for the user.
const advice = "install a Java runtime (17 or newer) and Maven, on Debian or Ubuntu: apt-get install openjdk-17-jre-headless maven"

// EnsureJava makes sure that java (at least MinJava) and mvn can be run. Where
// one is missing it is installed by apt-get, if there is one and the process is
// root; otherwise the error wraps ErrNoJava or ErrNoMaven and says what to
// install.
func EnsureJava(ctx context.Context) error {
	missing := missingTools(ctx)
	if missing == nil {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return fmt.Errorf("%w; %s", missing, advice)
	}
	if err := aptInstall(ctx, apt); err != nil {
		return fmt.Errorf("%w; %w; %s", missing, err, advice)
	}
	if missing := missingTools(ctx); missing != nil {
		return fmt.Errorf("after apt-get install: %w; %s", missing, advice)
	}
	return nil
}

// javaPackages are tried in this order: releases of Debian and Ubuntu differ in
// which they have.
var javaPackages = []string{"openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless"}

func aptInstall(ctx context.Context, apt string) error {
	return installFirst(ctx, apt, javaPackages, "maven")
}

// installFirst installs the first of the packages that there is, and others
// with it.
func installFirst(ctx context.Context, apt string, packages []string, with ...string) error {
	if err := runApt(ctx, apt, []string{"update"}); err != nil {
		return err
	}
	var errs []error
	for _, name := range packages {
		err := runApt(ctx, apt, append([]string{"install", "-y", "--no-install-recommends", name}, with...))
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func runApt(ctx context.Context, apt string, args []string) error {
	cmd := exec.CommandContext(ctx, apt, append([]string{"-qq"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	log, werr := os.CreateTemp("", "klink-apt-*.log")
	if werr != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	defer log.Close()
	if _, werr := log.Write(out); werr != nil {
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return fmt.Errorf("apt-get %s: %w (its output: %s)", args[0], err, log.Name())
}

// missingTools is nil when both java and mvn are usable.
func missingTools(ctx context.Context) error {
	if _, err := findJava(ctx); err != nil {
		return err
	}
	_, err := findMaven()
	return err
}

// java is a Java launcher and what it calls itself; class archives are only
// good for the very release that wrote them.
type java struct {
	path    string
	version string // the whole of -version, without a trailing newline
}

// findJava looks in JAVA_HOME first, as Kafka's own scripts do, then in PATH.
func findJava(ctx context.Context) (java, error) {
	path := ""
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidate := filepath.Join(home, "bin", "java")
		if _, err := os.Stat(candidate); err == nil {
			path = candidate
		}
	}
	if path == "" {
		found, err := exec.LookPath("java")
		if err != nil {
			return java{}, fmt.Errorf("%w: java is not in PATH and JAVA_HOME names none", ErrNoJava)
		}
		path = found
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return java{}, fmt.Errorf("%w: java -version: %w", ErrNoJava, err)
	}
	text := strings.TrimSpace(string(out))
	release, ok := javaRelease(text)
	if !ok {
		return java{}, fmt.Errorf("%w: java -version names no release", ErrNoJava)
	}
	if release < MinJava {
		return java{}, fmt.Errorf("%w: it is release %d, Kafka needs %d or newer", ErrNoJava, release, MinJava)
	}
	return java{path: path, version: text}, nil
}

func findMaven() (string, error) {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: mvn is not in PATH", ErrNoMaven)
	}
	return mvn, nil
}

var versionWords = regexp.MustCompile(`version "(?:1\.)?([0-9]+)`)

// javaRelease reads the feature release out of what java -version prints:
// 17 from 17.0.15 and 8 from 1.8.0_402.
func javaRelease(text string) (int, bool) {
	m := versionWords.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}
