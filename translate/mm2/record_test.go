package mm2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldenBytes holds M1: the bytes are those that Kafka's own classes made.
func TestGoldenBytes(t *testing.T) {
	sync := Sync{Topic: "orders", Partition: 3, Up: 1000, Down: 990}
	plain := Checkpoint{Key: Key{Group: "billing", Topic: "a.orders", Partition: 3}, Up: 1000, Down: 990}
	odd := Checkpoint{Key: Key{Group: "grp-é", Topic: "t"}, Up: -1, Down: math.MaxInt64, Metadata: "md"}
	beat := Heartbeat{Source: "a", Target: "b", Timestamp: 1700000000000}
	for name, c := range map[string]struct {
		encode     func() (key, value []byte, err error)
		decode     func(key, value []byte) (any, error)
		want       any
		key, value string
	}{
		"sync":             {sync.Encode, decodeSync, sync, "00066f726465727300000003", "00000000000003e800000000000003de"},
		"checkpoint":       {plain.Encode, decodeCheckpoint, plain, "000762696c6c696e670008612e6f726465727300000003", "000000000000000003e800000000000003de0000"},
		"checkpoint, ends": {odd.Encode, decodeCheckpoint, odd, "00066772702dc3a900017400000000", "0000ffffffffffffffff7fffffffffffffff00026d64"},
		"heartbeat":        {beat.Encode, decodeHeartbeat, beat, "000161000162", "00000000018bcfe56800"},
	} {
		wantKey, wantValue := unhex(t, c.key), unhex(t, c.value)
		key, value, err := c.encode()
		if err != nil || !bytes.Equal(key, wantKey) || !bytes.Equal(value, wantValue) {
			t.Errorf("%s: %x %x, %v", name, key, value, err)
		}
		if got, err := c.decode(wantKey, wantValue); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := c.decode(append(wantKey, 1, 2, 3), append(wantValue, 4, 5, 6)); err != nil || got != c.want {
			t.Errorf("%s with bytes behind: %+v, %v", name, got, err)
		}
	}
}

func decodeSync(key, value []byte) (any, error)       { return DecodeSync(key, value) }
func decodeCheckpoint(key, value []byte) (any, error) { return DecodeCheckpoint(key, value) }
func decodeHeartbeat(key, value []byte) (any, error)  { return DecodeHeartbeat(key, value) }

func TestHostileBytes(t *testing.T) {
	const syncKey, checkpointKey, beatKey = "00017400000000", "00016700017400000000", "000161000162"
	for name, c := range map[string]struct {
		decode     func(key, value []byte) (any, error)
		key, value string
		err        error
	}{
		"sync, empty value":                 {decodeSync, syncKey, "", ErrCorrupt},
		"sync, 9 bytes":                     {decodeSync, syncKey, "000000000000000000", ErrCorrupt},
		"sync, empty key":                   {decodeSync, "", "00000000000000010000000000000001", ErrCorrupt},
		"sync, negative source offset":      {decodeSync, syncKey, "ffffffffffffffff0000000000000001", ErrCorrupt},
		"sync, negative target offset":      {decodeSync, syncKey, "0000000000000001ffffffffffffffff", ErrCorrupt},
		"sync, negative partition":          {decodeSync, "000174ffffffff", "00000000000000010000000000000001", ErrCorrupt},
		"sync, topic longer than the key":   {decodeSync, "7fff74", "00000000000000010000000000000001", ErrCorrupt},
		"sync, topic not UTF-8":             {decodeSync, "0001ff00000000", "00000000000000010000000000000001", ErrCorrupt},
		"checkpoint, version 1":             {decodeCheckpoint, checkpointKey, "0001000000000000000100000000000000010000", ErrVersion},
		"checkpoint, version -1":            {decodeCheckpoint, checkpointKey, "ffff000000000000000100000000000000010000", ErrVersion},
		"checkpoint, metadata length -1":    {decodeCheckpoint, checkpointKey, "000000000000000000010000000000000001ffff", ErrCorrupt},
		"checkpoint, no metadata":           {decodeCheckpoint, checkpointKey, "000000000000000000010000000000000001", ErrCorrupt},
		"checkpoint, negative target":       {decodeCheckpoint, checkpointKey, "00000000000000000001ffffffffffffffff0000", ErrCorrupt},
		"checkpoint, group of length -1":    {decodeCheckpoint, "ffff", "0000000000000000000100000000000000010000", ErrCorrupt},
		"checkpoint, the key of a sync":     {decodeCheckpoint, "000174", "0000000000000000000100000000000000010000", ErrCorrupt},
		"heartbeat, version 2":              {decodeHeartbeat, beatKey, "00020000000000000001", ErrVersion},
		"heartbeat, no timestamp":           {decodeHeartbeat, beatKey, "0000", ErrCorrupt},
		"heartbeat, one alias":              {decodeHeartbeat, "000161", "00000000000000000001", ErrCorrupt},
		"heartbeat, one byte for a version": {decodeHeartbeat, beatKey, "00", ErrCorrupt},
	} {
		if got, err := c.decode(unhex(t, c.key), unhex(t, c.value)); !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, decode := range map[string]func(key, value []byte) (any, error){"sync": decodeSync, "checkpoint": decodeCheckpoint, "heartbeat": decodeHeartbeat} {
		for _, null := range [][2][]byte{{nil, {}}, {{}, nil}, {nil, nil}} {
			if _, err := decode(null[0], null[1]); !errors.Is(err, ErrNull) {
				t.Errorf("%s of %v: %v", name, null, err)
			}
		}
	}
}

// TestNothingIsWrittenThatReadersFailOn holds the other half of M1.
func TestNothingIsWrittenThatReadersFailOn(t *testing.T) {
	long := strings.Repeat("x", math.MaxInt16)
	for name, encode := range map[string]func() (key, value []byte, err error){
		"a negative target offset":      Checkpoint{Down: -1}.Encode,
		"a negative partition":          Checkpoint{Key: Key{Partition: -1}}.Encode,
		"too long metadata":             Checkpoint{Metadata: long + "x"}.Encode,
		"metadata not UTF-8":            Checkpoint{Metadata: "\xff"}.Encode,
		"too long a group":              Checkpoint{Key: Key{Group: long + "x"}}.Encode,
		"too long a topic":              Checkpoint{Key: Key{Topic: long + "x"}}.Encode,
		"a sync's source offset":        Sync{Up: -1}.Encode,
		"a sync's target offset":        Sync{Down: -1}.Encode,
		"a sync's partition":            Sync{Partition: -1}.Encode,
		"a sync's topic":                Sync{Topic: "\xff"}.Encode,
		"a heartbeat's source":          Heartbeat{Source: "\xff"}.Encode,
		"a heartbeat's target, as long": Heartbeat{Target: long + "x"}.Encode,
	} {
		if key, value, err := encode(); !errors.Is(err, ErrValue) || key != nil || value != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	full := Checkpoint{Metadata: long}
	key, value, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeCheckpoint(key, value); err != nil || got != full {
		t.Errorf("the longest metadata: %v", err)
	}
}

// again checks that what was decoded is encoded to the bytes it came from, but for
// those behind.
func again(t *testing.T, key, value []byte, encode func() ([]byte, []byte, error)) {
	t.Helper()
	k, v, err := encode()
	if err != nil || !bytes.HasPrefix(key, k) || !bytes.HasPrefix(value, v) {
		t.Fatalf("%x %x became %x %x, %v", key, value, k, v, err)
	}
}

// known checks that an error is one of the package's.
func known(t *testing.T, err error) {
	t.Helper()
	for _, want := range []error{ErrNull, ErrCorrupt, ErrVersion, ErrForeign} {
		if errors.Is(err, want) {
			return
		}
	}
	t.Fatal(err)
}

func FuzzDecodeSync(f *testing.F) {
	f.Add(unhex(f, "00066f726465727300000003"), unhex(f, "00000000000003e800000000000003de"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s, err := DecodeSync(key, value)
		if err != nil {
			known(t, err)
			return
		}
		again(t, key, value, s.Encode)
	})
}

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add(unhex(f, "00066772702dc3a900017400000000"), unhex(f, "0000ffffffffffffffff7fffffffffffffff00026d64"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, err := DecodeCheckpoint(key, value)
		if err != nil {
			known(t, err)
			return
		}
		again(t, key, value, c.Encode)
	})
}

func FuzzDecodeHeartbeat(f *testing.F) {
	f.Add(unhex(f, "000161000162"), unhex(f, "00000000018bcfe56800"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		h, err := DecodeHeartbeat(key, value)
		if err != nil {
			known(t, err)
			return
		}
		again(t, key, value, h.Encode)
	})
}
