package readers

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func TestAnswersOfMirrorMakersClient(t *testing.T) {
	for _, c := range []struct {
		name, output string
		fails        bool
		want         RemoteAnswers
	}{
		{name: "nothing there", output: "END\n"},
		{
			name: "every kind",
			output: "upstream b\nupstream a\ncheckpoints a.checkpoints.internal\nheartbeats heartbeats\nhops a 1\nhops z -1\n" +
				"topics a a.orders\ntranslate a grp-%C3%A9 t 1 7 two+words\ntranslate a grp-%C3%A9 t 0 9223372036854775807 \nEND\n",
			want: RemoteAnswers{
				Upstream: []string{"a", "b"}, CheckpointTopics: []string{"a.checkpoints.internal"}, HeartbeatTopics: []string{"heartbeats"},
				Hops: map[string]int{"a": 1, "z": -1}, Topics: map[string][]string{"a": {"a.orders"}},
				Offsets: map[string]map[string][]Translated{"a": {"grp-é": {{"t", 0, 1<<63 - 1, ""}, {"t", 1, 7, "two words"}}}},
			},
		},
		{name: "cut short", output: "upstream a\n", fails: true},
		{name: "no question", output: "what a\nEND\n", fails: true},
		{name: "a field missing", output: "translate a g t 0 1\nEND\n", fails: true},
		{name: "no number", output: "hops a one\nEND\n", fails: true},
		{name: "no encoding", output: "upstream %zz\nEND\n", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "answers")
			if err := os.WriteFile(path, []byte(c.output), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := readAnswers(path)
			if (err != nil) != c.fails {
				t.Fatalf("got %v", err)
			}
			if c.want.Hops != nil && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestQuestionsToMirrorMakersClient(t *testing.T) {
	job := RemoteJob{
		Bootstrap: []string{"h:1", "h:2"}, Settings: map[string]string{"replication.policy.separator": "_"},
		Sources: []string{"a"}, Groups: map[string][]string{"a": {"g"}},
	}
	want := []string{
		"out", "set", "bootstrap.servers", "h:1,h:2", "set", "replication.policy.separator", "_",
		"upstream", "checkpoints", "heartbeats", "hops", "a", "topics", "a", "translate", "a", "g", translateMillis,
	}
	if got := job.args("out"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
