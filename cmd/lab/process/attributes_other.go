//go:build !unix

package process

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
