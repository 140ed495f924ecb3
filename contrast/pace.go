package contrast

import "time"

// sight is a look at how far the bulk is.
type sight struct {
	at      time.Time
	records int64
	cpu     *time.Duration
}

// pace is from when the bulk was first seen to move until all of it was there. The
// mirror's start is not in it.
type pace struct{ first, last sight }

// note takes a sight in.
func (p *pace) note(s sight) {
	if s.records == 0 {
		return
	}
	if p.first.records == 0 {
		p.first = s
	}
	p.last = s
}

// bytes of values between both sights; 0 where one look saw it all.
func (p pace) bytes() int64 { return (p.last.records - p.first.records) * bulkRecord }

func (p pace) megabytesPerSecond() *float64 {
	took := p.last.at.Sub(p.first.at).Seconds()
	if p.bytes() == 0 || took <= 0 {
		return nil
	}
	v := float64(p.bytes()) / 1e6 / took
	return &v
}

func (p pace) cpuPerGB() *float64 {
	if p.bytes() == 0 || p.first.cpu == nil || p.last.cpu == nil {
		return nil
	}
	v := (*p.last.cpu - *p.first.cpu).Seconds() / (float64(p.bytes()) / 1e9)
	return &v
}
