package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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

// Ports are taken from below the range that the system gives to outgoing
// connections (32768 upwards on Linux), so that nobody is handed the port of a
// broker that is down for a moment (L3).
const (
	firstPort = 12000
	portCount = 20000
	portTries = 2000
)

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
	var ports []int
	for range portTries {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(portCount)
		unlock, err := filelock.TryLock(filepath.Join(labRoot(), "ports", strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		if unlock == nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			unlock()
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		d.release = append(d.release, unlock)
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports from %d on: too many are taken", n, firstPort)
}

// close gives ports and folder back.
func (d *runDir) close() error {
	err := os.RemoveAll(d.path)
	for _, release := range d.release {
		release()
	}
	return err
}

func localAddr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
