package mm2

import (
	"encoding/hex"
	"errors"
	"testing"

	"klink/cmd/lab"
)

// The bytes were written by MirrorMaker 2's own Checkpoint class.
func TestParseCheckpoint(t *testing.T) {
	key, _ := hex.DecodeString("000762696c6c696e670008612e6f726465727300000003")
	value, _ := hex.DecodeString("000000000000000003e800000000000003de0000")
	got, err := ParseCheckpoint(key, value)
	want := Checkpoint{Group: "billing", At: lab.Partition{Topic: "a.orders", Number: 3}, Upstream: 1000, Downstream: 990}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	newer := append([]byte{0, 1}, value[2:]...)
	for _, bad := range [][2][]byte{{nil, nil}, {key, value[:17]}, {key[:20], value}, {key, newer}, {{0xff, 0xff, 0, 0}, value}} {
		if c, err := ParseCheckpoint(bad[0], bad[1]); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%x %x: %+v, %v", bad[0], bad[1], c, err)
		}
	}
}
