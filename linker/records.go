package linker

import (
	"klink/linker/control"
	"klink/linker/topics"
)

// renew gives a topic's record as it is to be now: what stands there stays, but
// for what was found anew. A topic that was deleted and made again has no past.
func renew(rec control.TopicRecord, f Found) control.TopicRecord {
	next := rec
	if rec.SourceID != f.ID {
		next.Compacted, next.SourceConfigs = false, ""
	}
	next.SourceTopic, next.SourceID, next.TargetTopic, next.Partitions = f.Topic, f.ID, f.Target, f.Partitions
	next.Compacted = next.Compacted || f.Compacted
	if f.OnRecord != "" {
		next.SourceConfigs = f.OnRecord
	}
	return next
}

// keep returns the settings that are seen now, with those of before for the ones
// that the target does not follow yet: what differs from the record is what is
// still to be done. "" is none seen.
func keep(before, now control.Configs, unfollowed []string) control.Configs {
	if now == "" || len(unfollowed) == 0 {
		return now
	}
	was, out := before.All(), now.All()
	for _, k := range unfollowed {
		if v, ok := was[k]; ok {
			out[k] = v
		}
	}
	return control.NewConfigs(out)
}

// onRecord picks what is remembered of a source topic's settings.
func onRecord(s topics.Settings) control.Configs {
	picked := make(map[string]control.Config)
	for k, v := range s.OnRecord() {
		picked[k] = control.Config(v)
	}
	return control.NewConfigs(picked)
}

// recorded tells what is on record of a source topic's mirror.
func (l *Link) recorded(source string) topics.Recorded {
	rec, ok := l.store.Topic(l.o.Name, source)
	out := topics.Recorded{PolicyHeld: l.store.Padding(l.o.Name, source), Drifts: l.modeOf(rec) == Checkpoint}
	if all := rec.SourceConfigs.All(); ok && all != nil {
		out.Source = make(map[string]string, len(all))
		for k, v := range all {
			out.Source[k] = v.Value
		}
	}
	return out
}

// mirrored lists the source topics that have a target by the records.
func mirrored(records []control.TopicRecord) (names []string) {
	for _, r := range records {
		if !r.TargetID.IsZero() {
			names = append(names, r.SourceTopic)
		}
	}
	return names
}

// owners tells which source topic of a link has a target's name by the records.
func owners(records []control.TopicRecord) func(target string) (source string, ok bool) {
	by := make(map[string]string, len(records))
	for _, r := range records {
		by[r.TargetTopic] = r.SourceTopic
	}
	return func(target string) (string, bool) {
		source, ok := by[target]
		return source, ok
	}
}
