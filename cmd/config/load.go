package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"klink/cmd/spell"
)

// Options say where the configuration comes from.
type Options struct {
	// File is the path of klink.yaml; "" means flags alone.
	File string
	// Link picks one link of the file by name; "" means all. With TargetOnly and no
	// file it names the link.
	Link string
	// Flags are those given on the command line.
	Flags Flags
	// TargetOnly is for commands that need no source: a link made of flags may
	// then lack source and topics, and the source's secrets are not read.
	TargetOnly bool
	// LookupEnv is os.LookupEnv, or nil for no environment.
	LookupEnv func(string) (string, bool)
}

// Load returns the checked configuration; the error is an *Error with
// everything that is wrong (C2).
func Load(o Options) (*Config, error) {
	cfg := Default()
	c := &checker{file: o.File, origin: map[string]string{}}
	if o.File != "" {
		text, err := os.ReadFile(o.File)
		if err != nil {
			return nil, unreadableFile(o.File, err)
		}
		d := decode(o.File, text, &cfg)
		if c.lines, c.problems = d.lines, d.problems; (&Error{d.problems}).Has(Unreadable) {
			return nil, asError(c.problems)
		}
	}
	c.environment(&cfg, o.LookupEnv)
	if !c.flags(&cfg, &o) {
		return nil, asError(c.problems)
	}
	c.config(&cfg, o.TargetOnly && o.File == "")
	c.choose(&cfg, o.Link, o.TargetOnly)
	if err := asError(c.problems); err != nil {
		return nil, err
	}
	return &cfg, nil
}

// choose keeps the link of that name, or all, and checks what depends on this
// version and on files for these alone: a link that is not asked for may wait
// for a feature or for its secrets.
func (c *checker) choose(cfg *Config, name string, targetOnly bool) {
	var kept []Link
	var names []string
	for i, l := range cfg.Links {
		names = append(names, l.Name)
		if name != "" && l.Name != name {
			continue
		}
		kept = append(kept, l)
		c.built(&l, linkPath(i))
		if !targetOnly {
			c.secrets(&l.Source, linkPath(i)+".source")
		}
		c.secrets(&l.Target, linkPath(i)+".target")
	}
	if len(kept) == 0 && name != "" {
		c.problems = append(c.problems, Problem{Kind: BadValue, Field: "--link",
			What:    fmt.Sprintf("there is no link %q%s", name, spell.DidYouMean(name, names)),
			Allowed: listChoices(names)})
	}
	cfg.Links = kept
}

func unreadableFile(file string, err error) error {
	p := Problem{Kind: Unreadable, File: file, What: "cannot be read: " + reasonOf(err)}
	if errors.Is(err, fs.ErrNotExist) {
		p.What, p.Do = "does not exist", "name the file with -c, or begin with docs/reference.yaml"
	}
	return &Error{Problems: []Problem{p}}
}

// Hash identifies the effective configuration: two instances with the same hash
// run with the same settings, whatever files and flags these came from.
func (c *Config) Hash() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("config: a Config of plain values does not marshal: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}
