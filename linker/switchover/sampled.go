package switchover

import (
	"klink/translate/exact"
	"klink/translate/mm2"
)

// mostSampled is how many records before the end of what was mirrored MirrorMaker 2's
// syncs are derived for: of older commits it keeps a few syncs far apart.
const mostSampled = 1 << 20

// sampled is what MirrorMaker 2 would keep of a map's copies, with its default of a
// sync for each hundred records and one for the last: as good as it gets, since its
// tasks have long restarted since the first copy, and lag behind the last.
func sampled(m *exact.Map) *mm2.Store {
	e, s := mm2.NewEmitter(mm2.LagDefault), mm2.NewStore()
	src, _ := m.End()
	for r := range m.Runs() {
		skip := max(0, src-mostSampled-r.Src)
		e.CopiedRun(r.Src+skip, r.Dst+skip, r.Count-skip, s.Add)
	}
	if up, down, ok := e.Flush(); ok {
		s.Add(up, down)
	}
	s.Started()
	return s
}

// samples keeps what was derived of a partition: as a rule several groups ask for it.
type samples struct{ of *mm2.Store }

// translate tells where MirrorMaker 2 would have a group go on.
func (s *samples) translate(m *exact.Map, src int64) (dst int64, ok bool) {
	if s.of == nil {
		s.of = sampled(m)
	}
	t := s.of.Translate(src)
	return t.Offset, t.Outcome == mm2.Found
}
