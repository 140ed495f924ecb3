package commits

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestKeys(t *testing.T) {
	k := key{"größe/1", "orders", 3}
	legacy := offsetKeyBytes(k)
	legacy[1] = 0
	for name, c := range map[string]struct {
		b    []byte
		want kind
	}{
		"offset":               {offsetKeyBytes(k), offsetRecord},
		"offset of 0.8.2":      {legacy, offsetRecord},
		"classic group":        {[]byte{0, 2, 0, 1, 'g'}, otherRecord},
		"member of KIP-848":    {[]byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, otherRecord},
		"share group":          {[]byte{0, 15, 0, 1, 'g'}, otherRecord},
		"streams group":        {[]byte{0, 24, 0, 1, 'g'}, otherRecord},
		"newer":                {[]byte{0, 25, 0, 1, 'g'}, unknownRecord},
		"newest":               {[]byte{0x7f, 0xff}, unknownRecord},
		"negative":             {[]byte{0xff, 0xff, 0, 1, 'g'}, unknownRecord},
		"null":                 {nil, unknownRecord},
		"one byte":             {[]byte{0}, unknownRecord},
		"cut":                  {offsetKeyBytes(k)[:9], unknownRecord},
		"negative partition":   {offsetKeyBytes(key{"g", "t", -1}), unknownRecord},
		"length of the group":  {[]byte{0, 1, 0x7f, 0xff, 'g'}, unknownRecord},
		"null group":           {[]byte{0, 1, 0xff, 0xff, 0, 1, 't', 0, 0, 0, 0}, unknownRecord},
		"empty group is a key": {offsetKeyBytes(key{"", "t", 0}), offsetRecord},
	} {
		t.Run(name, func(t *testing.T) {
			got, what := parseKey(c.b)
			if what != c.want {
				t.Fatalf("%d, want %d", what, c.want)
			}
			if strings.HasPrefix(name, "offset") && got != k {
				t.Errorf("%+v", got)
			}
			if what != offsetRecord && got != (key{}) {
				t.Errorf("a key of nothing: %+v", got)
			}
		})
	}
}

func TestValues(t *testing.T) {
	for v := range lastKnownValue + 1 {
		offset, metadata, ok := parseValue(offsetValueBytes(v, 1<<40, "metä\x00"))
		if !ok || offset != 1<<40 || metadata != "metä\x00" {
			t.Errorf("version %d: %d, %q, %v", v, offset, metadata, ok)
		}
		if offset, metadata, ok = parseValue(offsetValueBytes(v, -1, "m")); !ok || offset != Deleted || metadata != "" {
			t.Errorf("version %d of a negative offset: %d, %q, %v", v, offset, metadata, ok)
		}
	}
	tagged := kmsg.OffsetCommitValue{Version: 4, Offset: 5, TopicID: [16]byte{1}}
	tagged.UnknownTags.Set(9, []byte("later"))
	if offset, _, ok := parseValue(tagged.AppendTo(nil)); !ok || offset != 5 {
		t.Errorf("with tags: %d, %v", offset, ok)
	}
	for name, b := range map[string][]byte{
		"newer":    offsetValueBytes(lastKnownValue+1, 1, ""),
		"negative": {0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"empty":    {},
		"cut":      offsetValueBytes(3, 1, "m")[:12],
	} {
		if _, _, ok := parseValue(b); ok {
			t.Errorf("%s was understood", name)
		}
	}
}

// FuzzRecord: any bytes give an answer (O4), of which the texts are no longer
// than the bytes they came from.
func FuzzRecord(f *testing.F) {
	f.Add(offsetKeyBytes(key{"g", "t", 1}), offsetValueBytes(4, 3, "m"))
	f.Add([]byte{0, 2, 0, 1, 'g'}, []byte(nil))
	for v := range lastKnownValue + 2 {
		f.Add(offsetKeyBytes(key{"g", "t", 1}), offsetValueBytes(v, 3, "m"))
	}
	f.Fuzz(func(t *testing.T, k, v []byte) {
		got, what := parseKey(k)
		if len(got.group)+len(got.topic) > len(k) || got.partition < 0 || what > offsetRecord {
			t.Fatalf("%+v, %d of %d bytes", got, what, len(k))
		}
		offset, metadata, ok := parseValue(v)
		if len(metadata) > len(v) || offset < Deleted || !ok && (offset != 0 || metadata != "") {
			t.Fatalf("%d, %q, %v of %d bytes", offset, metadata, ok, len(v))
		}
	})
}
