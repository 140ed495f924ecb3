package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"klink/cmd/lab/filelock"
)

// Versions that the tests run on: Newest everywhere, Oldest for a named subset.
const (
	Newest = "4.3.1"
	Oldest = "3.9.1"
)

// cacheVariable names the folder that replaces the default cache.
const cacheVariable = "KLINK_LAB_CACHE"

// Distribution is one complete Kafka version on this machine.
type Distribution struct {
	Version string
	Dir     string // holds jars/, bootstrap.checkpoint and the class archives

	java      java
	classPath string
}

var (
	// ErrNotFetched says that a version's jars could not be got.
	ErrNotFetched = errors.New("could not be got")
	// ErrNoVersion says that what was given is no version.
	ErrNoVersion = errors.New("no Kafka version")
)

var versionFormat = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}$`)

// Kafka makes sure that version is on this machine and returns it. The first
// call of a version fetches some 55 MB and starts the broker once or twice
// (about 15 s); later calls only look. It wraps ErrNoJava or ErrNoMaven when one
// is missing and cannot be installed, ErrNotFetched when there is no such version or
// no way to it, and ErrNoVersion.
func Kafka(ctx context.Context, version string) (*Distribution, error) {
	if !versionFormat.MatchString(version) {
		return nil, fmt.Errorf("%w: %q; want numbers and dots, as in %s", ErrNoVersion, version, Newest)
	}
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "kafka-"+version)
	jvm, err := findJava(ctx)
	if err == nil {
		if d := (&Distribution{Version: version, Dir: dir, java: jvm}); d.complete() {
			return d.load()
		}
	}
	if err := EnsureJava(ctx); err != nil {
		return nil, err
	}
	if jvm, err = findJava(ctx); err != nil {
		return nil, fmt.Errorf("%w; %s", err, advice)
	}
	d := &Distribution{Version: version, Dir: dir, java: jvm}
	if err := d.install(ctx, root); err != nil {
		return nil, err
	}
	return d.load()
}

func cacheRoot() (string, error) {
	if root := os.Getenv(cacheVariable); root != "" {
		return filepath.Abs(root)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder (or set %s): %w", cacheVariable, err)
	}
	return filepath.Join(base, "klink"), nil
}

// complete says whether nothing is left to do for this Java release.
func (d *Distribution) complete() bool {
	for _, path := range []string{d.jarDir(), d.BootstrapCheckpoint(), d.archive()} {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

// install does what complete finds missing, holding the version's lock (I2).
func (d *Distribution) install(ctx context.Context, root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(root, ".kafka-"+d.Version+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.removeLeftovers(root); err != nil {
		return err
	}
	if _, err := os.Stat(d.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := d.fetch(ctx, root); err != nil {
			return err
		}
	}
	if d.complete() {
		return nil
	}
	// The folder is complete but for this Java release's class archive.
	if _, err := d.load(); err != nil {
		return err
	}
	return d.writeArchive(ctx)
}

// removeLeftovers deletes what an install that was killed left half done. Only
// the holder of the version's lock may do that.
func (d *Distribution) removeLeftovers(root string) error {
	for _, pattern := range []string{filepath.Join(root, ".kafka-"+d.Version+"-*"), filepath.Join(d.Dir, ".archive-*")} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch fills a temporary folder and renames it to the final one (I1).
func (d *Distribution) fetch(ctx context.Context, root string) error {
	tmp, err := os.MkdirTemp(root, ".kafka-"+d.Version+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	log := filepath.Join(root, "kafka-"+d.Version+"-maven.log")
	if err := resolveJars(ctx, tmp, d.Version, log); err != nil {
		return err
	}
	staged := &Distribution{Version: d.Version, Dir: tmp, java: d.java}
	if _, err := staged.load(); err != nil {
		return err
	}
	if err := staged.writeBootstrap(ctx); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, d.Dir); err != nil {
		return fmt.Errorf("put Kafka %s in place: %w", d.Version, err)
	}
	return nil
}

// load lists the jars in a fixed order: a class archive is only used with the
// very class path it was written with.
func (d *Distribution) load() (*Distribution, error) {
	jars, err := filepath.Glob(filepath.Join(d.jarDir(), "*.jar"))
	if err != nil {
		return nil, err
	}
	if len(jars) == 0 {
		return nil, fmt.Errorf("Kafka %s: no jars in %s: remove that folder's parent to have it made again", d.Version, d.jarDir())
	}
	slices.Sort(jars)
	d.classPath = strings.Join(jars, string(os.PathListSeparator))
	return d, nil
}

func (d *Distribution) jarDir() string { return filepath.Join(d.Dir, "jars") }

// BootstrapCheckpoint is the first metadata snapshot that Kafka's storage tool
// writes when it formats a folder for this version: feature levels only, the
// same for every cluster and node. With it and a meta.properties a node's folder
// is formatted, without starting Java for it.
func (d *Distribution) BootstrapCheckpoint() string {
	return filepath.Join(d.Dir, "bootstrap.checkpoint")
}

// archive is the class-data archive of this Java release.
func (d *Distribution) archive() string {
	sum := sha256.Sum256([]byte(d.java.version))
	return filepath.Join(d.Dir, "classes-"+hex.EncodeToString(sum[:6])+".jsa")
}

// Command prepares a run of a main class of this version: jvm are flags of the
// Java launcher, main the class, args its arguments. The class archive is used
// unless jvm names another one.
func (d *Distribution) Command(ctx context.Context, jvm []string, main string, args ...string) *exec.Cmd {
	argv := slices.Clone(jvm)
	if !slices.ContainsFunc(jvm, func(f string) bool { return strings.HasPrefix(f, "-XX:ArchiveClassesAtExit") }) {
		argv = append(argv, "-XX:SharedArchiveFile="+d.archive(), "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
	}
	argv = append(append(argv, d.logFlag(), main), args...)
	cmd := exec.CommandContext(ctx, d.java.path, argv...)
	cmd.Env = append(os.Environ(), "CLASSPATH="+d.classPath)
	return cmd
}
