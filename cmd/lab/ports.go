package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"klink/cmd/lab/filelock"
)

// Ports are taken from below the range that the system gives to outgoing
// connections (32768 upwards on Linux), so that nobody is handed the port of a
// broker that is down for a moment (L3).
const (
	firstPort = 12000
	portCount = 20000
	portTries = 2000
)

// ReservePort gives a port of 127.0.0.1 that no lab on the machine is given until
// release, and that no outgoing connection takes while nobody listens on it: for
// what stops listening for a while, as a proxy in mode Refuse does.
func ReservePort() (addr string, release func(), err error) {
	ports, releases, err := reservePorts(1)
	if err != nil {
		return "", nil, err
	}
	return localAddr(ports[0]), releases[0], nil
}

// reservePorts takes n ports, each until its function is called (L2). Those of an
// error are given back.
func reservePorts(n int) (ports []int, release []func(), err error) {
	folder := filepath.Join(labRoot(), "ports")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, err
	}
	for range portTries {
		if len(ports) == n {
			return ports, release, nil
		}
		port := firstPort + rand.IntN(portCount)
		unlock, err := filelock.TryLock(filepath.Join(folder, strconv.Itoa(port)))
		if err != nil {
			return nil, nil, giveBack(release, err)
		}
		if unlock == nil {
			continue
		}
		if !isFree(port) {
			unlock()
			continue
		}
		ports, release = append(ports, port), append(release, unlock)
	}
	return nil, nil, giveBack(release, fmt.Errorf("find %d free ports from %d on: too many are taken", n, firstPort))
}

func giveBack(release []func(), err error) error {
	for _, r := range release {
		r()
	}
	return err
}

func localAddr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
