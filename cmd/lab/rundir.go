package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"klink/cmd/lab/filelock"
)

// runDir is the folder of one cluster: data, logs, certificates. Its owner's
// lock tells other labs that it is in use (L1, L2).
type runDir struct {
	path    string
	release []func()
}

const ownerLock = "owner.lock"

// newRunDir makes a folder below the machine-wide one of this user and removes
// those whose owners are gone.
func newRunDir(ctx context.Context) (*runDir, error) {
	root := labRoot()
	if err := os.MkdirAll(filepath.Join(root, "ports"), 0o700); err != nil {
		return nil, err
	}
	// One at a time, so that nobody takes a folder for abandoned between its
	// making and its lock.
	unlock, err := filelock.Lock(ctx, filepath.Join(root, "runs.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeAbandoned(root); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(root, "run-")
	if err != nil {
		return nil, err
	}
	owned, err := filelock.TryLock(filepath.Join(dir, ownerLock))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &runDir{path: dir, release: []func(){owned}}, nil
}

func labRoot() string {
	return filepath.Join(os.TempDir(), "klink-lab-"+strconv.Itoa(os.Getuid()))
}

func removeAbandoned(root string) error {
	runs, err := filepath.Glob(filepath.Join(root, "run-*"))
	if err != nil {
		return err
	}
	for _, run := range runs {
		unlock, err := filelock.TryLock(filepath.Join(run, ownerLock))
		if err != nil {
			return err
		}
		if unlock == nil {
			continue
		}
		err = os.RemoveAll(run)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// ports reserves n ports of 127.0.0.1 until close.
func (d *runDir) ports(n int) ([]int, error) {
	ports, release, err := reservePorts(n)
	d.release = append(d.release, release...)
	return ports, err
}

// close gives ports and folder back.
func (d *runDir) close() error {
	err := os.RemoveAll(d.path)
	for _, release := range d.release {
		release()
	}
	return err
}
