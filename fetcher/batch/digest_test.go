package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// goldenChain is one vector of testdata/digest.json: the chain after each record.
type goldenChain struct {
	Name    string
	Records []goldenRecord
}

type goldenRecord struct {
	Offset, Timestamp int64
	Key, Value        *string // hex
	Headers           []struct {
		Key   string
		Value *string
	}
	Canonical string // hex
	Chain     string // hex
}

func (g goldenRecord) record(t *testing.T) Record {
	t.Helper()
	bytesOf := func(s *string) []byte {
		if s == nil {
			return nil
		}
		b, err := hex.DecodeString(*s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r := Record{Offset: g.Offset, Timestamp: g.Timestamp, Key: bytesOf(g.Key), Value: bytesOf(g.Value)}
	for _, h := range g.Headers {
		r.Headers = append(r.Headers, RecordHeader{Key: bytesOf(&h.Key), Value: bytesOf(h.Value)})
	}
	return r
}

// The vectors were computed outside of Go; see the note in the file.
func TestDigestGoldenVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/digest.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Note   string
		Chains []goldenChain
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Chains) == 0 {
		t.Fatal("no vectors")
	}
	for _, vector := range golden.Chains {
		t.Run(vector.Name, func(t *testing.T) {
			var c Chain
			for i, g := range vector.Records {
				r := g.record(t)
				if got := hex.EncodeToString(AppendCanonical(nil, r)); got != g.Canonical {
					t.Fatalf("record %d\n got %s\nwant %s", i, got, g.Canonical)
				}
				before := c.Sum()
				c.Add(r)
				if c.Hex() != g.Chain {
					t.Fatalf("chain after record %d\n got %s\nwant %s", i, c.Hex(), g.Chain)
				}
				if want := sha256.Sum256(AppendCanonical(before[:], r)); c.Sum() != want {
					t.Fatal("Sum and Hex differ from the definition")
				}
			}
			if c.Count() != int64(len(vector.Records)) {
				t.Fatalf("count %d", c.Count())
			}
		})
	}
}

// Records that a consumer can tell apart have different canonical forms.
func TestCanonicalTellsApart(t *testing.T) {
	e, a := []byte{}, []byte("a")
	records := []Record{
		{}, {Key: e}, {Value: e}, {Key: e, Value: e}, {Key: a}, {Value: a}, {Offset: 1}, {Timestamp: 1}, {Timestamp: -1},
		{Headers: []RecordHeader{{Key: e}}}, {Headers: []RecordHeader{{Key: e, Value: e}}}, {Headers: []RecordHeader{{Key: a}}},
		{Headers: []RecordHeader{{Key: a}, {Key: e}}}, {Headers: []RecordHeader{{Key: e}, {Key: a}}},
	}
	forms := map[string]int{}
	for i, r := range records {
		form := string(AppendCanonical(nil, r))
		if j, ok := forms[form]; ok {
			t.Errorf("%+v and %+v look alike", records[j], r)
		}
		forms[form] = i
	}
}
