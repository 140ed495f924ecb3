package mm2

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"math/rand/v2"
	"testing"
)

// number is a translation as OffsetSyncStore.translateDownstream tells it.
func number(tr Translation) string {
	switch tr.Outcome {
	case Found:
		return fmt.Sprint(tr.Offset)
	case TooOld:
		return "-1"
	default:
		return "empty"
	}
}

func expect(t *testing.T, s *Store, array string, want map[int64]string) {
	t.Helper()
	if got := s.String(); got != array {
		t.Errorf("%s in place of %s", got, array)
	}
	for q, w := range want {
		if got := number(s.Translate(q)); got != w {
			t.Errorf("%s: %d is %s, not %s", s, q, got, w)
		}
	}
}

// TestStoreExamples goes through what Kafka's class did with the same syncs.
func TestStoreExamples(t *testing.T) {
	s := NewStore()
	expect(t, s, "[]", map[int64]string{0: "empty"})
	s.Add(100, 200)
	expect(t, s, "[100:200#0-63]", map[int64]string{100: "empty"})
	s.Started()
	expect(t, s, "[100:200#0-63]", map[int64]string{99: "-1", 100: "200", 101: "201", 150: "201", 100000: "201"})
	s.Add(150, 251)
	expect(t, s, "[150:251#0-6 100:200#7-63]", map[int64]string{99: "-1", 100: "200", 149: "201", 150: "251", 151: "252"})
	s.Add(200, 10)
	expect(t, s, "[200:10#0-6 150:251#7 100:200#8-63]", map[int64]string{200: "10", 201: "11", 199: "252", 150: "251"})
	s.Add(20, 20)
	expect(t, s, "[20:20#0-63]", map[int64]string{19: "-1", 20: "20", 21: "21"})
	s.Add(20, 25)
	expect(t, s, "[20:25#0 20:20#1-63]", map[int64]string{20: "25", 21: "26"})

	if u := (&Store{started: true}).Translate(5); u.Outcome != Unknown {
		t.Errorf("without a sync: %+v", u)
	}
}

func TestStoreOfEachRecord(t *testing.T) {
	s := NewStore()
	want := map[int64]string{
		3: "[3:3#0 2:2#1 0:0#2-63]", 4: "[4:4#0 3:3#1 2:2#2 0:0#3-63]", 8: "[8:8#0 7:7#1 6:6#2 4:4#3 0:0#4-63]",
		13: "[13:13#0 12:12#1 10:10#2 8:8#3 0:0#4-63]", 16: "[16:16#0 15:15#1 14:14#2 12:12#3 8:8#4 0:0#5-63]",
		20: "[20:20#0 19:19#1 18:18#2 16:16#3 8:8#4 0:0#5-63]",
	}
	for u := range int64(21) {
		s.Add(u, u)
		if w, ok := want[u]; ok && s.String() != w {
			t.Errorf("after %d: %s", u, s)
		}
	}
}

func TestStoreOfALongRow(t *testing.T) {
	s := NewStore()
	for u := int64(0); u <= 999_900; u += 101 {
		s.Add(u, u)
	}
	s.Started()
	expect(t, s, "[999900:999900#0-7 999799:999799#8 999698:999698#9 999496:999496#10 998688:998688#11 997072:997072#12 995456:995456#13 988992:988992#14 982528:982528#15 956672:956672#16 930816:930816#17 827392:827392#18 620544:620544#19 413696:413696#20 0:0#21-63]",
		map[int64]string{999_999: "999901", 999_000: "998689", 990_000: "988993", 900_000: "827393", 500_000: "413697", 100_000: "1"})
}

func TestStoreAtItsStart(t *testing.T) {
	fill := func(s *Store) *Store {
		for u := int64(0); u <= 1000; u += 100 {
			s.Add(u, u)
		}
		s.Started()
		return s
	}
	s := fill(NewConservativeStore())
	expect(t, s, "[1000:1000#0-63]", map[int64]string{450: "-1", 999: "-1", 1000: "1000"})
	s.Add(1100, 1100)
	s.Add(1200, 1200)
	expect(t, s, "[1200:1200#0-7 1100:1100#8 1000:1000#9-63]", map[int64]string{450: "-1", 1050: "1001"})

	s = fill(NewStore())
	expect(t, s, "[1000:1000#0-7 900:900#8 800:800#9 400:400#10 0:0#11-63]", map[int64]string{450: "401", 999: "901", 1000: "1000"})
	s.Add(981, 1020) // the source task copies again
	expect(t, s, "[981:1020#0-63]", map[int64]string{450: "-1", 950: "-1", 980: "-1", 1000: "1021"})
}

func TestStoreAtTheHighestOffset(t *testing.T) {
	s := NewStore()
	s.Add(0, 0)
	s.Add(1<<62-1, 5)
	s.Add(math.MaxInt64-1, 9)
	s.Add(math.MaxInt64, 10)
	expect(t, s, "[9223372036854775807:10#0 9223372036854775806:9#1-62 4611686018427387903:5#63]", nil)
}

// TestStoreForgetsAsItThins: of a fixed offset the answer may go down.
func TestStoreForgetsAsItThins(t *testing.T) {
	s := NewStore()
	s.Started()
	for i, want := range []string{"5", "6", "6", "6", "6", "6", "5"} {
		s.Add(int64(11+i), int64(4+i))
		if got := number(s.Translate(13)); got != want {
			t.Errorf("after %d: %s, not %s", 11+i, got, want)
		}
	}
}

// TestGoldenStream holds M3 over the stream that Kafka's class was fed with.
func TestGoldenStream(t *testing.T) {
	s := NewStore()
	log := sha256.New()
	x, up, down := uint64(1), int64(0), int64(0)
	for range 2000 {
		s.Add(up, down)
		write(t, log, s.String()+"\n")
		x = x*6364136223846793005 + 1442695040888963407
		step := int64((x>>33)%1000 + 1)
		up, down = up+step, down+(step+1)/2
	}
	if up != 995768 || down != 498369 {
		t.Errorf("the stream ended at %d:%d", up, down)
	}
	s.Started()
	expect(t, s, "[995326:498148#0-10 994337:497653#11 992345:496656#12 988491:494726#13 982773:491865#14 975995:488473#15 948602:474764#16 922178:461541#17 867565:434205#18 653150:326890#19 437645:219022#20 0:0#21-63]", nil)
	sum(t, log, "e365db6437b31278c08578806677b1cd60679f7952e764fe6c2b5c77036eda21")

	answers := sha256.New()
	for q := int64(0); q <= 995768; q += 997 {
		write(t, answers, fmt.Sprintf("%d->%s\n", q, number(s.Translate(q))))
	}
	sum(t, answers, "33e18d575fd2320934fe7cce9b34e0039a1b65f3491c30a8b0543a01a8617b3d")
}

func write(t *testing.T, h hash.Hash, text string) {
	t.Helper()
	if _, err := io.WriteString(h, text); err != nil {
		t.Fatal(err)
	}
}

func sum(t *testing.T, h hash.Hash, want string) {
	t.Helper()
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash %s, not %s", got, want)
	}
}

// TestStoreInvariants holds B and C of OffsetSyncStore for all pairs of slots, and
// that a regular row loses at most one sync at each insertion.
func TestStoreInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		s := NewStore()
		var up int64
		for range 300 {
			before := distinct(s)
			s.Add(up, up/2)
			after := distinct(s)
			if round == 0 && after < before {
				t.Fatalf("from %d syncs to %d", before, after)
			}
			for i := range s.slot {
				for j := i + 1; j < slots; j++ {
					a, b := s.slot[i], s.slot[j]
					limit := b.up + int64(uint64(1)<<j) - int64(uint64(1)<<i)
					if a.id != b.id && (limit >= 0 && a.up > limit || a.up < b.up+int64(uint64(1)<<max(i-2, 0))) {
						t.Fatalf("slots %d and %d: %s", i, j, s)
					}
				}
			}
			if round == 0 {
				up += 100
				continue
			}
			up += 1 + rng.Int64N(1<<(round%20))
		}
	}
}

func distinct(s *Store) int {
	n, last := 0, uint64(0)
	for _, e := range s.slot {
		if e.id != last {
			n, last = n+1, e.id
		}
	}
	return n
}
