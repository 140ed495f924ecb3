package maps

import (
	"testing"
	"time"

	"klink/translate/exact"
)

// TestAdoptedStays: what a map was begun with outlives the cursors that are put
// later, also by another process.
func TestAdoptedStays(t *testing.T) {
	c := newCluster(t)
	s := open(t, c)
	m, _ := load(t, s, here)
	if err := m.Add(exact.Run{Src: 50, Dst: 80, Count: 10}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(within(t), here, m); err != nil {
		t.Fatal(err)
	}
	begun := Cursor{Src: 61, Dst: 95, Seq: 10, At: time.Unix(1, 0).UTC(), Floor: 50, Adopted: 95}
	if err := s.PutCursor(within(t), here, begun); err != nil {
		t.Fatal(err)
	}
	other := open(t, c)
	if m, got := load(t, other, here); got != begun || m.Floor() != 50 || m.Adopted() != 95 {
		t.Errorf("%+v, floor %d, adopted %d", got, m.Floor(), m.Adopted())
	}
	if err := other.PutCursor(within(t), here, Cursor{Src: 71, Dst: 105, Seq: 20, At: begun.At}); err != nil {
		t.Fatal(err)
	}
	if m, got := load(t, s, here); got.Src != 71 || got.Floor != 50 || m.Adopted() != 95 {
		t.Errorf("%+v, adopted %d", got, m.Adopted())
	}
}
