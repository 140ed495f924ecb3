package process

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Holds tells whether the program has the TCP connection from local to remote
// (IPv4, host:port) open: whose a connection is that has come to a proxy.
func (p *Process) Holds(local, remote string) (bool, error) {
	from, err := netip.ParseAddrPort(local)
	if err != nil {
		return false, err
	}
	to, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false, err
	}
	inode, err := socketInode(procAddress(from), procAddress(to))
	if err != nil || inode == "" {
		return false, err
	}
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	open, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it has ended
	}
	if err != nil {
		return false, err
	}
	for _, f := range open {
		// A file that was closed meanwhile is none of its own.
		if target, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && target == "socket:["+inode+"]" {
			return true, nil
		}
	}
	return false, nil
}

// socketInode finds a socket by its addresses in /proc/net/tcp (proc(5)); "" where
// there is none. One port may be the near end of connections to several others.
func socketInode(local, remote string) (string, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		const own, far, inode = 1, 2, 9
		fields := strings.Fields(scanner.Text())
		if len(fields) > inode && fields[own] == local && fields[far] == remote {
			return fields[inode], nil
		}
	}
	return "", scanner.Err()
}

// procAddress writes an address as the kernel does: the IP as one number in
// the machine's own order of bytes.
func procAddress(a netip.AddrPort) string {
	ip := a.Addr().As4()
	var own [4]byte
	binary.NativeEndian.PutUint32(own[:], binary.BigEndian.Uint32(ip[:]))
	return strings.ToUpper(hex.EncodeToString(own[:])) + fmt.Sprintf(":%04X", a.Port())
}
