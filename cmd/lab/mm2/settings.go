package mm2

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"klink/cmd/lab/install"
)

//go:embed *.properties
var files embed.FS

const suffix = ".properties"

// Names are those of the settings.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it was embedded at build time
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), suffix))
	}
	return names
}

// Values fill a settings file in.
type Values struct {
	Source, Target string // bootstrap addresses
	S, T           string // aliases: new ones for each run, so that it begins afresh
	Topics, Codec  string
}

var errNoJVM = errors.New("the first line is not '# jvm: FLAGS'")

// Properties gives a settings file filled in, and the flags of the Java launcher
// from its first line.
func Properties(name string, v Values) (text string, jvm []string, err error) {
	raw, err := files.ReadFile(name + suffix)
	if err != nil {
		return "", nil, fmt.Errorf("settings of MirrorMaker 2: %w", err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	flags, ok := strings.CutPrefix(first, "# jvm: ")
	if !ok {
		return "", nil, fmt.Errorf("settings of MirrorMaker 2: %s: %w", name, errNoJVM)
	}
	tmpl, err := template.New(name).Parse(string(raw))
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, v); err != nil {
		return "", nil, err
	}
	return b.String(), strings.Fields(flags), nil
}

// Command prepares a run of MirrorMaker 2 with the settings of that name. dir is
// for this run alone: the filled-in settings and native codecs come to lie there.
func Command(kafka *install.Distribution, dir, name string, v Values) (*exec.Cmd, error) {
	text, jvm, err := Properties(name, v)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "mm2.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	jvm = append(jvm, "-Djava.io.tmpdir="+dir)
	// Whoever starts it ends it, and the kernel at the latest (package process).
	return kafka.Command(context.Background(), jvm, "org.apache.kafka.connect.mirror.MirrorMaker", path), nil
}
