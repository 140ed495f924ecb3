package appender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/leaders"
	"klink/linker/state"
)

// MaxMarkers is the most markers of one request. A broker carries a request out
// to its end even if the client has hung up, at some 1,000 markers a second with
// three replicas: this bounds how long that lasts.
const MaxMarkers = 2000

// DefaultMarkerTimeout is just above the brokers' request.timeout.ms (30 s),
// after which they answer REQUEST_TIMED_OUT for exactly the partitions whose
// followers hang. Who gives up earlier puts all partitions of the request in
// doubt.
const DefaultMarkerTimeout = 35 * time.Second

const (
	opMarkers = "write markers"
	opSettle  = "settle markers"
)

// Errors inside a Fault of WriteMarkers and SettleMarkers.
var (
	// ErrNoMarkerClients: Options has no marker clients.
	ErrNoMarkerClients = errors.New("no connections for markers")
	// ErrBadMarkers: the markers are not what a broker takes one after the other.
	ErrBadMarkers = errors.New("not markers of one producer with rising coordinator epochs")
	// ErrLeaderEpoch: the leader epoch is not the one the markers are for.
	ErrLeaderEpoch = errors.New("the leader has changed")
)

// Markers are COMMIT markers of one producer for one partition, in order. Each
// takes one offset and no consumer sees it.
type Markers struct {
	// Identity is the producer that the partition's data have.
	Identity batch.Identity
	// CoordinatorEpochs has one entry per marker, 1 to MaxMarkers of them, each
	// at least 0 and above the one before. A leader refuses every marker of this
	// producer id below the highest one it has seen, and takes an equal one: a
	// value must never be used twice.
	CoordinatorEpochs []int32
	// LeaderEpoch is the one in which the log end was read, or the last answer
	// given, that the markers rely on. Where the leader map knows another one, they
	// are not sent (ErrLeaderEpoch). AnyLeader is for markers that rely on nothing,
	// such as fences.
	LeaderEpoch int32
}

// AnyLeader is no certain leader epoch. A cluster that tells no leader epochs
// has it as its only one.
const AnyLeader int32 = -1

func (m Markers) check() error {
	switch {
	case m.Identity.ProducerID < 0 || m.Identity.ProducerEpoch < 0:
		// A negative id has no state, so nothing is checked (-1 fails the request
		// after half of it was carried out).
		return fmt.Errorf("%w: producer id %d, epoch %d", ErrBadMarkers, m.Identity.ProducerID, m.Identity.ProducerEpoch)
	case len(m.CoordinatorEpochs) == 0 || len(m.CoordinatorEpochs) > MaxMarkers:
		return fmt.Errorf("%w: %d markers, allowed are 1 to %d", ErrBadMarkers, len(m.CoordinatorEpochs), MaxMarkers)
	}
	last := int32(-1)
	for _, e := range m.CoordinatorEpochs {
		if e <= last {
			return fmt.Errorf("%w: %d after %d", ErrBadMarkers, e, last)
		}
		last = e
	}
	return nil
}

// MarkerResult is what became of the markers of one WriteMarkers.
type MarkerResult struct {
	Outcome MarkerOutcome
	// Sent: the markers may have reached a broker.
	Sent bool
	// Leader is who was asked, Broker -1 where nobody was.
	Leader leaders.Leader
	// Reason is "" where there is nothing for status to show.
	Reason state.Reason
	// Err is a *Fault for every outcome but MarkersDone.
	Err error
}

// WriteMarkers writes markers to the end of a partition's log
// (WriteTxnMarkers v1, v0 on brokers before 2.8) and blocks until that is
// settled. It needs Alter or ClusterAction on the cluster and Describe on the
// topic. Like Append it tries once and decides nothing.
//
// Of a single marker the outcome is exact: MarkersDone means written and
// acknowledged by all in-sync replicas. Of several MarkersDone means only that
// the broker has answered, so that nothing of the request is still to come: one
// producer's answers hide each other. Read the log end (Ends).
//
// The answer has no offset. Whoever writes markers must know beforehand that
// the log ends where they are to stand, and be the only one to write.
//
// The caller has at most one WriteMarkers per partition under way, and no
// append beside it. Markers of several partitions travel in one request,
// MaxMarkers together; single ones have a connection of their own and so do not
// wait for bulks. ctx stands for the right to write: when it ends, markers that
// wait come back unsent, and the connection of those under way is cut, which
// leaves whoever shares the request in doubt as well (MarkersUnknown). Its
// deadline is looked at once more when the request's bytes are made.
func (a *Appender) WriteMarkers(ctx context.Context, t Target, m Markers) MarkerResult {
	err := m.check()
	if err == nil && (a.opts.Markers == nil || a.opts.MarkerBulks == nil) {
		err = ErrNoMarkerClients
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return markersNotSent(t, err)
	}
	part, err := a.desk.admit(t)
	if err != nil {
		return markersNotSent(t, err)
	}
	leader, fault := a.routeAsking(ctx, t, part.moved)
	if fault != nil {
		fault.Op = opMarkers
		a.desk.met.failed(ctx, classNotSent)
		a.desk.release(t, true)
		return MarkerResult{Outcome: MarkersNotSent, Leader: leader, Reason: fault.Reason, Err: fault}
	}
	j := &markerJob{op: opMarkers, target: t, markers: m, leader: leader, doubts: part.doubts, done: make(chan MarkerResult, 1)}
	j.until, _ = ctx.Deadline()
	if !a.desk.submit(j) {
		a.desk.release(t, false)
		return markersNotSent(t, ErrStopped)
	}
	return a.desk.await(ctx, j)
}

func markersNotSent(t Target, err error) MarkerResult {
	return MarkerResult{Outcome: MarkersNotSent, Leader: nobody,
		Err: &Fault{Op: opMarkers, Target: t, Broker: -1, Err: err}}
}

// SettleMarkers returns nil once the partition's leader has answered a request
// on a marker connection. A connection whose request stayed without an answer
// is cut and never used again, so the request travels on a new one; it is asked
// on each marker connection that ended so. Since brokers take requests up in
// the order of their coming, none that was sent before is then still waiting:
// it has been carried out, is being carried out, or never will be. The caller
// still has to see the log end stand still. The error is a *Fault.
func (a *Appender) SettleMarkers(ctx context.Context, t Target) error {
	if a.opts.Markers == nil || a.opts.MarkerBulks == nil {
		return &Fault{Op: opSettle, Target: t, Broker: -1, Err: ErrNoMarkerClients}
	}
	leader, fault := a.routeAsking(ctx, t, true)
	if fault != nil {
		fault.Op = opSettle
		return fault
	}
	jobs := a.desk.submitSettling(t, leader)
	if jobs == nil {
		return &Fault{Op: opSettle, Target: t, Broker: -1, Err: ErrStopped}
	}
	var first error
	for _, j := range jobs {
		if r := a.desk.await(ctx, j); first == nil {
			first = r.Err
		}
	}
	return first
}
