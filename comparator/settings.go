package comparator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Setting is one config of a topic.
type Setting struct {
	Value string
	// Explicit is true where it is set on the topic itself.
	Explicit bool
}

// Settings are the effective configs of a topic by name; nil is unknown.
type Settings map[string]Setting

// ConfigDifference is a setting of a target topic that is neither what a mirror
// of it is given nor what the source has.
type ConfigDifference struct {
	Link        string `json:"link"`
	SourceTopic string `json:"source_topic"`
	TargetTopic string `json:"target_topic"`
	Key         string `json:"key"`
	// Source and Target are the values, null where it is not set or not known.
	Source *string `json:"source"`
	Target *string `json:"target"`
	// Expected is the value of a mirror.
	Expected string `json:"expected"`
}

// differences compares a target topic's settings with what is expected. The
// source's own value is right as well: it comes into force when the mirror is
// promoted.
func differences(src, dst Settings, expected map[string]string) (out []ConfigDifference) {
	for _, key := range slices.Sorted(maps.Keys(expected)) {
		want, have := expected[key], dst[key].Value
		if have == want || src != nil && have == src[key].Value || samePolicy(key, have, want) {
			continue
		}
		out = append(out, ConfigDifference{Key: key, Source: valueOf(src, key), Target: valueOf(dst, key), Expected: want})
	}
	return out
}

// samePolicy compares lists of words, which mean the same in any order.
func samePolicy(key, a, b string) bool {
	words := func(s string) []string {
		return slices.Sorted(slices.Values(strings.Split(strings.ReplaceAll(s, " ", ""), ",")))
	}
	return key == "cleanup.policy" && slices.Equal(words(a), words(b))
}

func valueOf(s Settings, key string) *string {
	if v, ok := s[key]; ok {
		return &v.Value
	}
	return nil
}

func (s Settings) compacted() bool { return strings.Contains(s["cleanup.policy"].Value, "compact") }

// keepMillis is how long a cleaner keeps tombstones; 0 where unknown.
func (s Settings) keepMillis() int64 {
	n, err := strconv.ParseInt(s["delete.retention.ms"].Value, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// topicsPerRequest bounds the size of one DescribeConfigs.
const topicsPerRequest = 200

// describe asks a cluster for the settings of topics (DescribeConfigs, API 32).
// A topic whose settings may not be seen is absent.
func describe(ctx context.Context, cl *kgo.Client, names []string) (map[string]Settings, error) {
	out := make(map[string]Settings)
	for part := range slices.Chunk(names, topicsPerRequest) {
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, name := range part {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
			req.Resources = append(req.Resources, r)
		}
		for _, shard := range cl.RequestSharded(ctx, req) {
			if shard.Err != nil {
				return nil, fmt.Errorf("describe topic settings: %w", shard.Err)
			}
			for _, r := range shard.Resp.(*kmsg.DescribeConfigsResponse).Resources {
				if kerr.ErrorForCode(r.ErrorCode) == nil {
					out[r.ResourceName] = settingsOf(r)
				}
			}
		}
	}
	return out, nil
}

func settingsOf(r kmsg.DescribeConfigsResponseResource) Settings {
	s := make(Settings)
	for _, c := range r.Configs {
		if c.Value != nil {
			s[c.Name] = Setting{Value: *c.Value, Explicit: c.Source == kmsg.ConfigSourceDynamicTopicConfig}
		}
	}
	return s
}
