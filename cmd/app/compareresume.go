package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"klink/comparator"
)

// unfinished is the file that a comparison which was broken off leaves, so that
// another one goes on from it.
type unfinished struct {
	path string
	// before is what it held.
	before savedCompare
	now    savedCompare
	err    error
}

// savedCompare is what stands in the file.
type savedCompare struct {
	Version int `json:"_version"`
	// Last is that of CompareRequest.
	Last time.Duration `json:"last_nanoseconds"`
	// Links hold what is done of each link.
	Links map[string]comparator.Saved `json:"links"`
}

const savedVersion = 1

// openUnfinished reads the file; one that is not there holds nothing.
func openUnfinished(path string, last time.Duration) (*unfinished, error) {
	u := &unfinished{path: path, now: savedCompare{Version: savedVersion, Last: last, Links: map[string]comparator.Saved{}}}
	b, err := os.ReadFile(path)
	if folder := tryFolder(filepath.Dir(path)); folder != nil {
		return nil, &UsageError{Command: "compare", What: fmt.Sprintf("--resume: what is done could not be kept: %v", folder)}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &u.before)
	}
	switch {
	case err != nil:
		return nil, &UsageError{Command: "compare", What: fmt.Sprintf("--resume: %s cannot be read as what a comparison left: %v", path, err)}
	case u.before.Version != savedVersion:
		return nil, &UsageError{Command: "compare", What: fmt.Sprintf("--resume: %s has version %d, and not %d", path, u.before.Version, savedVersion)}
	case u.before.Last != last:
		return nil, &UsageError{Command: "compare", What: fmt.Sprintf("--resume: %s is of a comparison with --last %s", path, u.before.Last)}
	}
	for name, s := range u.before.Links {
		u.now.Links[name] = s
	}
	return u, nil
}

// of returns what is done of a link, nil for nothing.
func (u *unfinished) of(link string) *comparator.Saved {
	if s, ok := u.before.Links[link]; ok {
		return &s
	}
	return nil
}

// keep writes down what is done of a link. That it cannot be written is told at
// the end: what is compared is compared.
func (u *unfinished) keep(link string, s comparator.Saved) {
	u.now.Links[link] = s
	u.err = u.write()
}

// write replaces the file as a whole, so that there is always one.
func (u *unfinished) write() error {
	b, err := json.Marshal(u.now)
	if err != nil {
		return err
	}
	return replaceFile(u.path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// end removes the file after a comparison that came to its end, and tells of one
// that did not where to go on. Some items may have failed alone: for them the same
// command is run again, and goes on as well.
func (u *unfinished) end(items int, failed error) error {
	switch {
	case failed == nil && items > 0:
		return u.err
	case failed == nil:
		if err := os.Remove(u.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what is done with: %w", err)
		}
		return nil
	case u.err != nil:
		return errors.Join(failed, fmt.Errorf("what is done could not be kept: %w", u.err))
	case len(u.now.Links) > 0:
		return fmt.Errorf("%w; what is done is kept in %s, and the same command goes on from there", failed, u.path)
	default:
		return failed
	}
}
