package groups

import (
	"cmp"
	"slices"

	"klink/fetcher/feed"
)

// Known is an offset that a group committed on the source, as it was last seen.
type Known struct {
	Group string
	// Partition is of the source topic, Target the topic that mirrors it.
	Partition feed.Partition
	Target    string
	Offset    int64
	Metadata  string
}

// Commits lists the source's offsets of all groups, sorted: those that the source
// told since this process carries them over, of topics that the link has and of
// partitions whose copies are the source's records. It is not ok where this process
// does not carry them over.
func (s *Syncer) Commits() (all []Known, ok bool) {
	s.mu.Lock()
	w := s.session
	s.mu.Unlock()
	if w == nil {
		return nil, false
	}
	mirrors := w.view()
	w.mu.Lock()
	all = w.desk.known(mirrors)
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b Known) int { return cmp.Or(cmp.Compare(a.Group, b.Group), compare(a.Partition, b.Partition)) })
	return all, true
}

func (d *Desk) known(mirrors map[string]Mirror) (all []Known) {
	for _, e := range d.groups {
		for p, f := range e.facts {
			m, ok := mirrors[p.Topic]
			if !ok || m.Barred == TopicRemoved || m.Partitions[p.Partition] == NotAligned || f.offset < 0 || f.restored() || e.foreign || !e.carried {
				continue
			}
			all = append(all, Known{Group: e.name, Partition: p, Target: m.Target, Offset: f.offset, Metadata: f.metadata})
		}
	}
	return all
}
