//go:build !linux

package process

func (p *Process) awaitStopped() error { return nil }
