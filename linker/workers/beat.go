package workers

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// beats sends a heartbeat each interval, and at once after each assignment.
func (m *Members) beats(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(m.opts.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.beatNow:
		case <-ctx.Done():
			return
		}
		m.beat(ctx, cl)
	}
}

// beat sends one heartbeat and takes its answer. Several fit into a lease even
// when the first ones are never answered.
func (m *Members) beat(ctx context.Context, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, (m.opts.SessionTimeout-m.opts.Margin)/3)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = m.opts.Group
	m.mu.Lock()
	beat, sent := m.lease.begin(), time.Now()
	m.mu.Unlock()
	// Read after the number is taken: what was assigned before it belongs to this
	// generation or an earlier one (W1).
	if req.MemberID, req.Generation = cl.GroupMetadata(); req.MemberID == "" {
		m.outside(sent)
		return
	}
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	m.answered(ctx, beat, sent, err)
}

// answer is what a heartbeat's answer means.
type answer string

const (
	answerOK          answer = "ok"
	answerRebalancing answer = "rebalancing"
	answerRemoved     answer = "removed"
	answerFailed      answer = "failed"
)

// read classifies; everything unknown is a failure, which renews nothing.
func read(err error) answer {
	switch {
	case err == nil:
		return answerOK
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration):
		// The second one: kgo joined the next generation in the meantime.
		return answerRebalancing
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID), errors.Is(err, kerr.GroupIDNotFound):
		return answerRemoved
	default:
		return answerFailed
	}
}

// answered changes the lease by an answer and tells what that changed.
func (m *Members) answered(ctx context.Context, beat uint64, sent time.Time, err error) {
	a := read(err)
	m.met.heartbeat(ctx, a)
	m.mu.Lock()
	first := false
	switch a {
	case answerOK:
		first = m.lease.unconfirmed()
		m.lease.renew(beat, sent)
		m.trouble.joined()
	case answerRemoved:
		m.lease.void()
	case answerFailed:
		if !m.stopped {
			m.trouble.group(m.opts.Group, "renew the lease", err)
		}
	}
	m.mu.Unlock()
	if first {
		poke(m.changed)
	}
	m.tellLapse(ctx)
}

// outside is a heartbeat that cannot be sent, since there is no member yet.
func (m *Members) outside(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble.outside(m.opts.Group, now, m.opts.SessionTimeout)
}

// tellLapse logs and counts the start and the end of a lapse.
func (m *Members) tellLapse(ctx context.Context) {
	m.mu.Lock()
	now := m.lease.lapsed(time.Now()) && !m.stopped
	was := m.lapsed
	m.lapsed = now
	why := m.trouble.ofGroup
	m.mu.Unlock()
	switch {
	case now && !was:
		m.met.lapsed(ctx)
		m.opts.Logger.Warn("lease lapsed: no markers, pads and trims", keyGroup, m.opts.Group, keyErr, why)
		poke(m.changed)
	case was && !now:
		m.opts.Logger.Info("lease held again", keyGroup, m.opts.Group)
		poke(m.changed)
	}
}
