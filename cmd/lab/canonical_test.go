package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCanonicalBytes pins the form by hand: no code of the lab wrote these.
func TestCanonicalBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		record kgo.Record
		want   string
	}{
		{"all there", kgo.Record{
			Offset: 7, Timestamp: time.UnixMilli(1000), Key: []byte("k"), Value: []byte("vv"),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "n", Value: nil}},
		}, "0000000000000007" + "00000000000003e8" + "00000001" + "6b" + "00000002" + "7676" +
			"00000002" + "00000001" + "68" + "00000001" + "78" + "00000001" + "6e" + "ffffffff"},
		{"nulls", kgo.Record{Offset: 0, Timestamp: time.UnixMilli(-1)},
			"0000000000000000" + "ffffffffffffffff" + "ffffffff" + "ffffffff" + "00000000"},
		{"empties", kgo.Record{Key: []byte{}, Value: []byte{}, Timestamp: time.UnixMilli(0), Headers: []kgo.RecordHeader{{Value: []byte{}}}},
			"0000000000000000" + "0000000000000000" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000"},
	} {
		if got := hex.EncodeToString(canonical(nil, &c.record)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestTheChainStartsAtZerosAndHashesEachStep(t *testing.T) {
	var c chain
	if c.hex() != hex.EncodeToString(make([]byte, 32)) {
		t.Errorf("the empty chain is %s", c.hex())
	}
	var want [32]byte
	for i := range int64(3) {
		r := kgo.Record{Offset: i, Timestamp: time.UnixMilli(i)}
		c.add(&r)
		want = sha256.Sum256(append(want[:], canonical(nil, &r)...))
	}
	if c.hex() != hex.EncodeToString(want[:]) || c.count != 3 {
		t.Errorf("chain %s of %d records, want %x", c.hex(), c.count, want)
	}
}
