package survey

import "testing"

// In checkpoint mode nothing is padded or filled, and what the target holds is no
// obstacle.
func TestPlanDrift(t *testing.T) {
	l := startLink(t, "tx", "later", "used")
	l.o.Drift = true
	for _, topic := range []string{"tx", "later", "used"} {
		l.src.create(t, topic, 1, nil)
	}
	l.dst.create(t, "used", 1, nil)
	src, dst := l.src.plain(), l.dst.plain()
	l.src.transact(t, "tx", 6)
	l.src.produce(t, src, "later", 10)
	if err := deleteRecords(t.Context(), l.src.admin.Broker(0), partitionZero("later"), 4); err != nil {
		t.Fatal(err)
	}
	l.src.produce(t, src, "used", 2)
	l.dst.produce(t, dst, "used", 3) // beyond the source's end
	r, err := Plan(t.Context(), l.o)
	if err != nil {
		t.Fatal(err)
	}
	for topic, reasons := range map[string]int{"tx": 0, "later": 0, "used": 1} {
		x := r.topic(t, topic)
		if x.Verdict != Checkpoint || len(x.Reasons) != reasons || *x.Partitions[0].DataBytes == 0 {
			t.Errorf("%+v", x)
		}
	}
	requireNumbers(t, r.topic(t, "tx"), 0, 18, 0, 0)
	requireNumbers(t, r.topic(t, "later"), 4, 10, 0, 0)
	requireNumbers(t, r.topic(t, "used"), 0, 2, 0, 0)
	if r.Rates[0].ExpectedMarkers != nil {
		t.Error("markers are expected where none are written")
	}
}
