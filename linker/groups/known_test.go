package groups

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// What others are told of the source's commits is what the source said.
func TestCommitsAreTold(t *testing.T) {
	p := newPair(t)
	p.fill(10)
	s := &Syncer{o: p.o, session: p.session}
	want := func(want ...Known) {
		t.Helper()
		got, ok := s.Commits()
		if d := cmp.Diff(want, got); d != "" || !ok {
			t.Error(ok, d)
		}
	}
	want()
	p.commit(p.srcAdm, "g", "orders", 1, 0, "m")
	p.commit(p.srcAdm, "excluded", "orders", 0, 3, "")
	p.commit(p.srcAdm, "a", "orders", 0, 3, "")
	p.sync()
	a := Known{Group: "a", Partition: feed.Partition{Topic: "orders"}, Target: "dr.orders", Offset: 3}
	g := Known{Group: "g", Partition: feed.Partition{Topic: "orders", Partition: 1}, Target: "dr.orders", Metadata: "m"}
	want(a, g)
	if _, err := p.srcAdm.DeleteGroups(p.ctx, "a"); err != nil {
		t.Fatal(err)
	}
	p.sync()
	want(g)

	p.restart() // nothing is told that is on record alone
	s.session = p.session
	want()
	p.shown = []state.Topic{{SourceTopic: "orders", Partitions: []state.Partition{{Partition: 1, State: state.Halted, Reason: string(state.Diverged)}}}}
	p.sync()
	want()
	s.session = nil
	if got, ok := s.Commits(); ok || got != nil {
		t.Errorf("%+v by a process that carries nothing over", got)
	}
}
