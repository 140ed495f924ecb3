package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/intent"
	"klink/linker/state"
)

func TestCopyVerbatim(t *testing.T) {
	p := newPair(t)
	p.fill(5)
	// C023: names are opaque.
	names := []string{"g", "größe #1:@/ü", "a b", "a%20b", "G"}
	for i, g := range names {
		p.commit(p.srcAdm, g, "orders", 0, int64(i), "metä\x00data")
	}
	p.commit(p.srcAdm, "excluded", "orders", 0, 3, "")
	got := p.sync()
	for i, g := range names {
		p.want(g, int64(i))
		if o := p.committed(g); o != nil && (o.Metadata != "metä\x00data" || o.LeaderEpoch != -1) {
			t.Errorf("%q: %+v", g, o)
		}
		if got[g].State != state.GroupSynced {
			t.Errorf("%+v", got[g])
		}
	}
	if p.committed("excluded") != nil || len(got) != 5 {
		t.Errorf("%d groups reported", len(got))
	}
	// Nothing changed: nothing is written.
	written := p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1})
	puts := p.store.puts
	for range 5 {
		p.sync()
	}
	if written.Hits() != 0 || p.store.puts != puts {
		t.Errorf("%d commits and %d records for nothing", written.Hits(), p.store.puts-puts)
	}
}

func TestCopyIsClampedAndRaised(t *testing.T) {
	p := newPair(t)
	p.fill(3)
	p.commit(p.srcAdm, "g", "orders", 0, 8, "")
	p.commit(p.srcAdm, "g", "orders", 1, 4, "")
	got := p.sync()["g"]
	p.want("g", 3)
	if got.State != state.GroupSyncing || got.Partitions[0].Reason != "CLAMPED" || *got.Partitions[0].SourceOffset != 8 || *got.Partitions[0].TargetOffset != 3 || got.Partitions[0].AgeSeconds != nil {
		t.Errorf("%+v", got)
	}
	p.fill(10)
	p.cycles() // without a poll
	p.want("g", 8)
	got = p.report()["g"]
	if got.Partitions[0].Reason != "" || got.Partitions[0].AgeSeconds == nil {
		t.Errorf("%+v", got.Partitions[0])
	}
	p.commit(p.srcAdm, "g", "orders", 0, 2, "") // a rewind is followed
	p.sync()
	p.want("g", 2)
}

func TestTargetOwnedIsLeftAlone(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 5, "")
	p.commit(p.dstAdm, "g", "dr.orders", 0, 7, "")
	got := p.sync()["g"]
	p.wantReason(got, 0, TargetOwned)
	if *got.Partitions[0].TargetOffset != 7 {
		t.Errorf("%+v", got)
	}
	p.want("g", 7)

	// Somebody worked on the target after klink had written; also a restart does
	// not forget that.
	p.commit(p.srcAdm, "h", "orders", 0, 5, "")
	p.sync()
	p.want("h", 5)
	p.commit(p.dstAdm, "h", "dr.orders", 0, 8, "")
	for i := range int64(3) {
		p.commit(p.srcAdm, "h", "orders", 0, 6+i%2, "")
		p.sync()
		p.want("h", 8)
		p.restart()
	}

	// An operator gives it to klink.
	p.store.command(intent.Command{Verb: intent.Accept, Group: "h"})
	p.session.mirrors = nil
	p.commit(p.srcAdm, "h", "orders", 0, 4, "")
	p.sync()
	p.want("h", 4)
	p.commit(p.dstAdm, "h", "dr.orders", 0, 8, "")
	p.commit(p.srcAdm, "h", "orders", 0, 6, "")
	p.wantReason(p.sync()["h"], 0, TargetOwned) // once
	p.want("h", 8)
}

// U4: after a kill -9 klink knows its own writes, also those of which it did not
// see the answer.
func TestRestartKnowsItsOwn(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.sync()
	p.restart()
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 1})
	p.wantReason(p.sync()["g"], 0, Failed)
	p.want("g", 6)
	p.restart()
	p.commit(p.srcAdm, "g", "orders", 0, 8, "")
	p.sync()
	p.want("g", 8)
	if r := p.store.groups["g"].Offsets[0]; r.Previous != 6 || r.Written != 8 || r.SourceOffset != 8 || r.Topic != "dr.orders" {
		t.Errorf("%+v", r)
	}
}

// U4: a commit whose answer was an error may stand; it is not a stranger's.
func TestCommitWithoutAnswer(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.sync()
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 1})
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	p.wantReason(p.sync()["g"], 0, Failed)
	p.commit(p.srcAdm, "g", "orders", 0, 8, "")
	p.sync()
	p.want("g", 8)
}

// U6: a poll is whole only where all coordinators answered for all groups.
func TestWholePolls(t *testing.T) {
	p := newPair(t)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	if !p.session.pollOnce(p.ctx).whole {
		t.Error("nothing is missing")
	}
	for name, f := range map[string]kfake.Fault{
		"no list":   {Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Err: kerr.UnknownServerError, Nodes: []int32{1}, Count: -1},
		"no answer": {Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnknownServerError, Count: -1},
	} {
		h := p.src.Fault(f)
		if p.session.pollOnce(p.ctx).whole {
			t.Error(name)
		}
		h.Remove()
	}
	p.src.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	if !p.session.pollOnce(p.ctx).whole {
		t.Error("a right that is missing is an answer")
	}
}

// A command is acknowledged only once what was under way when it came is over.
func TestAcknowledgementWaitsForCommits(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.o.Now, p.o.Interval = time.Now, time.Hour
	s, err := New(p.o)
	if err != nil {
		t.Fatal(err)
	}
	// The first CatchUp begins the session, the second one is before a commit.
	catches, inCycle, goOn := 0, make(chan struct{}), make(chan struct{})
	p.store.caught = func() {
		if catches++; catches == 2 {
			close(inCycle)
			<-goOn
		}
	}
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p.store) }()
	<-inCycle
	p.store.command(intent.Command{Verb: intent.Failover, Topics: []string{"orders"}, Fence: 1, Switch: "s"})
	for range 5 {
		looks := p.store.looked()
		p.store.command(intent.Command{Verb: intent.Retry, Topics: []string{"other"}})
		p.await(func() bool { return p.store.looked() > looks })
	}
	if n := len(p.store.Acks("l", "")); n != 0 {
		t.Errorf("%d acknowledgements while a commit is under way", n)
	}
	close(goOn)
	p.await(func() bool { return len(p.store.Acks("l", "")) == 1 })
	if p.committed("g") != nil {
		t.Error("written though the command was in the log")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// C010: with members, or when the target does not tell, nothing is written.
func TestGroupsWithMembersAreLeftAlone(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 5, "")
	p.sync()
	p.want("g", 5)

	member, err := kgo.NewClient(kgo.SeedBrokers(p.dst.ListenAddrs()...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("dr.orders"),
		kgo.DisableAutoCommit(), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	left := false
	defer func() {
		if !left {
			member.Close()
		}
	}()
	if fs := member.PollFetches(p.ctx); fs.NumRecords() == 0 {
		t.Fatal(fs.Err())
	}
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	refused := p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1})
	got := p.sync()["g"]
	if got.State != state.GroupWaiting || got.Reason != string(GroupActive) || refused.Hits() != 0 {
		t.Errorf("%+v, %d commits", got, refused.Hits())
	}
	// The list is older than the member: the coordinator refuses.
	p.session.desk.Peers(map[string]Peer{"g": {Members: NoMembers}}, true, p.now)
	p.cycles()
	p.wantReason(p.report()["g"], 0, GroupActive)
	if refused.Hits() != 1 {
		t.Errorf("%d commits", refused.Hits())
	}
	p.want("g", 5)
	left = true
	member.Close()
	p.sync()
	p.want("g", 6)

	// No list for a while: unknown is no answer.
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: -1})
	p.commit(p.srcAdm, "g", "orders", 0, 7, "")
	p.now = p.now.Add(time.Minute)
	if got := p.sync()["g"]; got.Reason != string(GroupUnknown) {
		t.Errorf("%+v", got)
	}
	p.want("g", 6)
}

// C019, C029, U3: what one partition or group is refused does not hold up others.
func TestRefusalsStayWithTheirPartition(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	for _, g := range []string{"g", "h", "i"} {
		p.commit(p.srcAdm, g, "orders", 0, 4, "")
		p.commit(p.srcAdm, g, "orders", 1, 0, "")
	}
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "g", Partitions: []int32{1}, Err: kerr.UnknownTopicOrPartition, Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "h", Err: kerr.GroupAuthorizationFailed, Count: -1})
	got := p.sync()
	p.want("g", 4)
	p.want("i", 4)
	p.wantReason(got["g"], 0, Synced)
	p.wantReason(got["g"], 1, TargetUnknown)
	p.wantReason(got["h"], 0, NoPermission)
	p.cycles() // what passes is tried again without a poll
	p.wantReason(p.report()["g"], 1, Synced)
	if o := p.store.groups["h"]; len(o.Offsets) != 2 || o.Offsets[0].Reason != "NO_PERMISSION" && o.Offsets[0].Reason != "" {
		t.Errorf("%+v", o)
	}
}

// The source refuses one group, and another is listed by a broker that is away:
// the others go on, and what was known stays (C016).
func TestTroubleOfSingleGroupsOnTheSource(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	for _, g := range []string{"g", "h", "i"} {
		p.commit(p.srcAdm, g, "orders", 0, 4, "")
	}
	p.sync()
	p.src.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "h", Err: kerr.GroupAuthorizationFailed, Count: -1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Err: kerr.GroupAuthorizationFailed, Nodes: []int32{0}, Count: -1})
	for _, g := range []string{"g", "h", "i"} {
		p.commit(p.srcAdm, g, "orders", 0, 6, "")
	}
	got := p.sync()
	p.want("g", 6)
	p.want("h", 4)
	p.want("i", 6)
	if got["h"].Reason != string(NoPermission) || len(got) != 3 {
		t.Errorf("%+v", got)
	}
}

// What the target does not tell is not written over, nor taken for gone (U1).
func TestTargetThatDoesNotTellOffsets(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	for _, g := range []string{"g", "h"} {
		p.commit(p.srcAdm, g, "orders", 0, 4, "")
	}
	p.sync()
	if _, err := p.srcAdm.DeleteGroups(p.ctx, "h"); err != nil {
		t.Fatal(err)
	}
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	mute := p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnknownServerError, Count: -1})
	got := p.sync()
	p.wantReason(got["g"], 0, GroupUnknown)
	p.wantReason(got["h"], 0, GroupUnknown)
	mute.Remove()
	p.want("g", 4)
	if r := p.store.groups["h"]; len(r.Offsets) != 1 || r.Offsets[0].Written != 4 {
		t.Errorf("on record is %+v", r)
	}
	got = p.sync()
	p.want("g", 6)
	p.wantReason(got["h"], 0, SourceDeleted)
}

// The coordinator moves, and one is away for a while: by itself it goes on.
func TestCoordinatorMoves(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.sync()
	p.src.RehashCoordinators()
	p.dst.RehashCoordinators()
	p.commit(p.srcAdm, "g", "orders", 0, 5, "")
	p.sync()
	p.want("g", 5)
	gone := p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: 3})
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	p.sync()
	p.cycles()
	p.cycles()
	p.want("g", 6)
	if gone.Hits() == 0 {
		t.Error("the fault was not met")
	}
	p.commit(p.srcAdm, "g", "orders", 0, 7, "")
	p.wantReason(p.sync()["g"], 0, Synced)
	p.want("g", 7)
}

// C022: the offset matters more than the string.
func TestMetadataTooLarge(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "a long string")
	p.commit(p.srcAdm, "g", "orders", 1, 0, "kept")
	p.dst.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "g", Partitions: []int32{0}, Err: kerr.OffsetMetadataTooLarge, Count: -1,
		When: func(r kmsg.Request) bool {
			for _, t := range r.(*kmsg.OffsetCommitRequest).Topics {
				if slices.ContainsFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool {
					return p.Metadata != nil && strings.HasPrefix(*p.Metadata, "a long")
				}) {
					return true
				}
			}
			return false
		}})
	got := p.sync()["g"]
	p.want("g", 4)
	p.wantReason(got, 0, MetadataDropped)
	p.wantReason(got, 1, Synced)
	p.wantReason(p.sync()["g"], 0, MetadataDropped) // as long as it is so
	p.commit(p.srcAdm, "g", "orders", 0, 5, "short")
	p.wantReason(p.sync()["g"], 0, Synced)
	if o := p.committed("g"); o == nil || o.Metadata != "short" {
		t.Errorf("%+v", o)
	}
}

// C025: what is deleted at the source is left to expire, and a group made again
// under its name is carried at once, from 0.
func TestDeletedAtTheSource(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	p.sync()
	if _, err := p.srcAdm.DeleteGroups(p.ctx, "g"); err != nil {
		t.Fatal(err)
	}
	p.wantReason(p.sync()["g"], 0, SourceDeleted)
	p.want("g", 6)
	p.restart()
	p.wantReason(p.sync()["g"], 0, SourceDeleted)
	p.commit(p.srcAdm, "g", "orders", 0, 0, "")
	p.wantReason(p.sync()["g"], 0, Synced)
	p.want("g", 0)
	// Both are gone: nothing is left of it.
	for _, adm := range []*kadm.Client{p.srcAdm, p.dstAdm} {
		if _, err := adm.DeleteGroups(p.ctx, "g"); err != nil {
			t.Fatal(err)
		}
	}
	p.sync()
	if r := p.report(); len(r) != 1 || r["*"].Reason != string(FilterUnmatched) || len(p.store.groups) != 0 {
		t.Errorf("%+v %+v", r, p.store.groups)
	}
}

// C020: of a group that reads several topics those are carried that are mirrored
// and not stopped; a command that comes in between counts (U5).
func TestStoppedTopicsAreNotWritten(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.sync()
	p.commit(p.srcAdm, "g", "orders", 0, 6, "")
	stop := func() {
		p.store.caught = nil
		p.store.command(intent.Command{Verb: intent.Failover, Topics: []string{"orders"}, Fence: 1, Switch: "s"})
	}
	p.store.caught = stop // it is in the log when the record is
	p.wantReason(p.sync()["g"], 0, TopicStopped)
	p.want("g", 4)
	p.restart()
	p.commit(p.srcAdm, "g", "orders", 0, 7, "")
	p.wantReason(p.sync()["g"], 0, TopicStopped)
	p.want("g", 4)
}

func TestPausedLinkWritesNoOffsets(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.store.command(intent.Command{Verb: intent.Pause})
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.wantReason(p.sync()["g"], 0, TopicPaused)
	p.store.command(intent.Command{Verb: intent.Resume})
	p.session.review()
	p.cycles()
	p.want("g", 4)
}

// Without the lease, with a control topic that cannot be written or read, or when
// another process wrote meanwhile, nothing is written.
func TestNothingIsWrittenUnguarded(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.sync()
	for name, c := range map[string]struct{ begin, end func() }{
		"no lease":                  {func() { p.lease.set(true) }, func() { p.lease.set(false) }},
		"lease lost between":        {func() { p.store.caught = func() { p.lease.set(true) } }, func() { p.store.caught = nil; p.lease.set(false) }},
		"control topic not read":    {func() { p.store.refuse = errDown }, func() { p.store.refuse = nil }},
		"control topic not written": {func() { p.store.refusePuts = errDown }, func() { p.store.refusePuts = nil }},
		"another process": {func() {
			p.store.caught = func() {
				r := p.store.groups["g"]
				r.At = r.At.Add(time.Millisecond)
				p.store.groups["g"] = r
			}
		}, func() { p.store.caught = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			before := p.committed("g").At
			p.commit(p.srcAdm, "g", "orders", 0, before+1, "")
			c.begin()
			p.sync()
			p.want("g", before)
			c.end()
			for range 3 {
				p.sync()
			}
			p.want("g", before+1)
		})
	}
}

// A mirror that nothing is on record of may have been promoted: until it is adopted its
// groups are left to those who work there.
func TestMirrorsThatAreNotAdoptedGetNoOffsets(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.shown = []state.Topic{{SourceTopic: "orders", Partitions: []state.Partition{{State: state.Halted, Reason: string(state.NotAdopted)}}}}
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.wantReason(p.sync()["g"], 0, NotAligned)
	if p.committed("g") != nil {
		t.Errorf("%+v", p.committed("g"))
	}
	p.shown = nil
	for range 3 {
		p.sync()
	}
	p.want("g", 4)
}

// Offsets of a log that is not the source's are not written, by the partition's
// state.
func TestCrookedLogsGetNoOffsets(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.shown = []state.Topic{{SourceTopic: "orders", Partitions: []state.Partition{
		{Partition: 0, State: state.Halted, Reason: string(state.TargetNotEmpty)}, {Partition: 1, State: state.Halted, Reason: string(state.TooLarge)}}}}
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	p.commit(p.srcAdm, "g", "orders", 1, 0, "")
	got := p.sync()["g"]
	p.wantReason(got, 0, NotAligned)
	p.wantReason(got, 1, Synced)
	if p.committed("g") != nil {
		t.Errorf("%+v", p.committed("g"))
	}
}

func TestMirrorNotThereYet(t *testing.T) {
	p := newPair(t)
	if err := p.dst.DeleteTopic("dr.orders"); err != nil {
		t.Fatal(err)
	}
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	if got := p.sync()["g"]; got.State != state.GroupSyncing || got.Partitions[0].Reason != "TARGET_UNKNOWN" || got.Partitions[0].TargetOffset != nil {
		t.Errorf("%+v", got)
	}
}

// Many groups take few questions, and one request each to be written.
func TestManyGroups(t *testing.T) {
	p := newPair(t)
	p.fill(3)
	for i := range 250 {
		p.commit(p.srcAdm, fmt.Sprintf("g%d", i), "orders", 0, int64(i%4), "")
	}
	count := func(c *kfake.Cluster, k kmsg.Key) *kfake.FaultHandle {
		return c.Fault(kfake.Fault{Keys: []kmsg.Key{k}, Observe: true, Count: -1})
	}
	asked, written := count(p.src, kmsg.OffsetFetch), count(p.dst, kmsg.OffsetCommit)
	p.sync()
	for range 3 {
		p.cycles()
	}
	for g, s := range p.report() {
		if s.State != state.GroupSynced {
			t.Errorf("%s: %+v", g, s)
		}
	}
	p.want("g99", 3)
	// kfake counts each group of a request that names several.
	if n := asked.Hits(); n > 250 {
		t.Errorf("%d questions to the source", n)
	}
	if n := written.Hits(); n != 250 {
		t.Errorf("%d requests", n)
	}
}
