//go:build !unix

package process

func (p *Process) signal(sign) error { return ErrUnsupported }
