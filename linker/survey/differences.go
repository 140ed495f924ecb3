package survey

import (
	"slices"
	"strconv"

	"klink/linker/topics"
)

const (
	whySet      = "mirroring needs it"
	whyKept     = "left as the target's owner has set it"
	whyWanted   = "the link's topics.configs"
	whyPromoted = "klink follows the source's log start itself; the source's value comes into force at a promotion"
)

// differences lists the settings in which a target topic differs from its
// source's, or will. have is nil where the target has no such topic.
func differences(source topics.Settings, want topics.ConfigPlan, have topics.Settings, overrides map[string]string) []ConfigDifference {
	var out []ConfigDifference
	corrected := map[string]bool{}
	if have != nil {
		for _, c := range topics.Corrections(want, have) {
			corrected[c.Key] = true
		}
	}
	for _, kv := range want.Set {
		d := ConfigDifference{Key: kv.Key, Source: value(source, kv.Key), Target: value(have, kv.Key), Planned: &kv.Value, Why: why(kv.Key, overrides)}
		switch {
		case have == nil:
			if d.Source != nil && *d.Source != kv.Value {
				out = append(out, d)
			}
		case corrected[kv.Key]:
			out = append(out, d)
		case d.Target != nil && *d.Target != kv.Value:
			d.Planned, d.Why = d.Target, whyKept
			out = append(out, d)
		}
	}
	for _, x := range want.Dropped {
		out = append(out, ConfigDifference{Key: x.Key, Source: &x.Value, Target: value(have, x.Key), Planned: value(have, x.Key), Why: x.Why})
	}
	return out
}

func value(s topics.Settings, key string) *string {
	if v, ok := s[key]; ok {
		return &v.Value
	}
	return nil
}

func why(key string, overrides map[string]string) string {
	if _, ok := overrides[key]; ok {
		return whyWanted
	}
	if slices.Contains([]string{"retention.ms", "retention.bytes"}, key) {
		return whyPromoted
	}
	return whySet
}

// maxBatch is the largest batch that the target topic takes, in bytes; 0 is not
// known.
func maxBatch(want topics.ConfigPlan, have topics.Settings) int {
	most := 0
	for _, kv := range want.Set {
		if kv.Key == "max.message.bytes" {
			most, _ = strconv.Atoi(kv.Value)
		}
	}
	if v, ok := have["max.message.bytes"]; ok {
		if n, err := strconv.Atoi(v.Value); err == nil {
			most = max(most, n)
		}
	}
	return most
}
