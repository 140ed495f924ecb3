package e2e

import (
	"testing"

	"klink/cmd/lab"
)

// TestG1_EveryCodecAndShape mirrors 8 partitions of every codec between two real
// brokers: 1 to 1000 records a batch, null and empty keys, values and headers,
// records up to the topic's limit, timestamps from 1970 to tomorrow.
func TestG1_EveryCodecAndShape(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"4.3.1", "3.9.1"} {
		t.Run(version, func(t *testing.T) {
			p := startPair(t, lab.KafkaOptions{Version: version}, lab.KafkaOptions{Version: version})
			var topics []string
			for _, codec := range lab.Codecs {
				name := "codec-" + codec
				topics = append(topics, name)
				create(t, p.src, lab.TopicSpec{Name: name, Partitions: 8, Configs: lab.KeepEverything()})
			}
			k := startKlink(t, p.plain("codec-*")...)
			var total int64
			for i, codec := range lab.Codecs {
				r := produce(t, p.src, lab.LoadOptions{Topics: []string{topics[i]}, Seed: uint64(i) + 1, Codecs: []string{codec},
					LargeEvery: 50, Total: int64(8 * CodecRecords.N()), Idempotent: i%2 == 0})
				total += r.Acked
			}
			requireMirrored(t, p, total, topics...)
			k.stop(t)
		})
	}
}
