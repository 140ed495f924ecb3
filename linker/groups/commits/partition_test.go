package commits

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the expected events anew instead of comparing with them")

// TestScripts plays logs written as text and compares the events, also as text.
// A block is a title, what the log holds, and after "----" what is told:
//
//	start stable=N end=N        where the log ended when it was asked
//	groups NAME ...             the groups that are wanted (all)
//	plain AT KEY=N [text]       a commit; KEY is group/topic/partition
//	old AT KEY=N [text]         one in the format of before 0.11
//	txn ID AT KEY=N [text]      one in producer ID's transaction
//	delete AT KEY               a tombstone
//	commit|abort|emptied ID AT  a marker; emptied as the log cleaner leaves it
//	group AT NAME [gone]        a classic group's members, or their tombstone
//	record AT HEX               any other key
//	kraft AT                    a control batch that is no marker
//	damaged AT KEY=N            a commit with a wrong CRC
//	magic                       an entry of a format that there is not
//	answer [stable=N] end=N     ends an answer of the broker, and the reading
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			old, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, block := range strings.Split(strings.TrimSpace(string(old)), "\n\n") {
				input, _, _ := strings.Cut(block, "\n----")
				out = append(out, input+"\n----\n"+play(t, input))
			}
			got := strings.Join(out, "\n\n") + "\n"
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(old), got); d != "" {
				t.Errorf("events differ (-want +got); read them, then run with -rewrite:\n%s", d)
			}
		})
	}
}

// script is a block as read so far.
type script struct {
	t    testing.TB
	want wanted
	log  *partitionLog
	raw  []byte // of the answer
	out  []string
}

func play(t testing.TB, input string) string {
	t.Helper()
	s := &script{t: t}
	for _, line := range strings.Split(input, "\n") {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			s.line(words)
		}
	}
	return strings.Join(s.out, "\n")
}

func (s *script) line(words []string) {
	s.t.Helper()
	args := words[1:]
	switch words[0] {
	case "start":
		s.log = newPartitionLog(4, ends{stable: s.option(args, "stable"), end: s.option(args, "end")}, s.want)
	case "groups":
		s.want.group = func(g string) bool { return strings.Contains(" "+strings.Join(args, " ")+" ", " "+g+" ") }
	case "plain":
		s.add(s.offset(made{at: s.number(args[0])}, args[1:]))
	case "old":
		s.raw = append(s.raw, s.offset(made{at: s.number(args[0])}, args[1:]).oldBytes()...)
	case "txn":
		s.add(s.offset(made{at: s.number(args[1]), producer: s.number(args[0]), attributes: transactional}, args[2:]))
	case "delete":
		s.add(made{at: s.number(args[0]), key: offsetKeyBytes(s.key(args[1]))})
	case "commit", "abort", "emptied":
		s.add(made{at: s.number(args[1]), producer: s.number(args[0]), attributes: transactional | control,
			key: markerKey(words[0] == "commit"), value: markerValue, empty: words[0] == "emptied"})
	case "group":
		m := made{at: s.number(args[0]), key: append([]byte{0, 2, 0, byte(len(args[1]))}, args[1]...), value: []byte{0, 3}}
		if len(args) > 2 {
			m.value = nil
		}
		s.add(m)
	case "record":
		var k []byte
		if _, err := fmt.Sscanf(args[1], "%x", &k); err != nil {
			s.t.Fatal(err)
		}
		s.add(made{at: s.number(args[0]), key: k, value: []byte{0, 0}})
	case "kraft":
		s.add(made{at: s.number(args[0]), attributes: control, key: []byte{0, 0, 0, 2}, value: markerValue})
	case "damaged":
		b := s.offset(made{at: s.number(args[0])}, args[1:]).bytes(s.t)
		b[len(b)-3] ^= 1
		s.raw = append(s.raw, b...)
	case "magic":
		s.raw = append(s.raw, make([]byte, 40)...)
		s.raw[len(s.raw)-24] = 9
	case "answer":
		s.answer(s.option(args, "stable"), s.option(args, "end"))
	default:
		s.t.Fatalf("line %q", words)
	}
}

func (s *script) add(m made) { s.raw = append(s.raw, m.bytes(s.t)...) }

// offset fills in a commit from KEY=N and a text.
func (s *script) offset(m made, args []string) made {
	s.t.Helper()
	k, n, _ := strings.Cut(args[0], "=")
	m.key, m.value = offsetKeyBytes(s.key(k)), offsetValueBytes(3, s.number(n), strings.Join(args[1:], " "))
	return m
}

func (s *script) key(text string) key {
	s.t.Helper()
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		s.t.Fatalf("key %q", text)
	}
	return key{parts[0], parts[1], int32(s.number(parts[2]))}
}

func (s *script) number(text string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// option is NAME=N among the words; stable follows end where it is left out.
func (s *script) option(words []string, name string) int64 {
	s.t.Helper()
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, name+"="); ok {
			return s.number(n)
		}
	}
	if name == "stable" {
		return s.option(words, "end")
	}
	s.t.Fatalf("%s is missing in %q", name, words)
	return 0
}

func (s *script) answer(stable, end int64) {
	unknown := s.log.unknown
	gap, err := s.log.read(s.raw, stable, end)
	s.raw = nil
	if gap {
		s.out = append(s.out, "gap")
	}
	if err != nil {
		if !errors.Is(err, errBytes) {
			s.t.Errorf("%v is not of errBytes", err)
		}
		s.out = append(s.out, "unreadable at "+strconv.FormatInt(s.log.next, 10))
	}
	for _, e := range s.log.take(end) {
		s.out = append(s.out, describe(e))
	}
	if n := s.log.unknown - unknown; n > 0 {
		s.out = append(s.out, fmt.Sprintf("unknown: %d", n))
	}
	s.out = append(s.out, fmt.Sprintf("next %d, %d open", s.log.next, len(s.log.tracker.open)))
}

func describe(e Event) string {
	what := "deleted"
	if e.Offset != Deleted {
		what = strconv.FormatInt(e.Offset, 10)
	}
	text := fmt.Sprintf("%d: %s/%s/%d %s", e.Source.Offset, e.Group, e.Topic, e.Partition, what)
	if e.Metadata != "" {
		text += " " + strconv.Quote(e.Metadata)
	}
	return text
}

// O2, O6: the time of an event is that of what decided.
func TestTimeOfAnEvent(t *testing.T) {
	l := newPartitionLog(7, ends{end: 10}, wanted{})
	k := key{"g", "t", 2}
	raw := made{at: 11, producer: 5, attributes: transactional, key: offsetKeyBytes(k), value: offsetValueBytes(4, 8, "m")}.bytes(t)
	raw = append(raw, made{at: 20, producer: 5, attributes: transactional | control, key: markerKey(true), value: markerValue}.bytes(t)...)
	if gap, err := l.read(raw, 21, 21); gap || err != nil {
		t.Fatal(gap, err)
	}
	want := []Event{{Group: "g", Topic: "t", Partition: 2, Offset: 8, Metadata: "m", At: base.Add(20e6), Source: Place{7, 20}}}
	if d := cmp.Diff(want, l.take(21)); d != "" {
		t.Error(d)
	}
	if l.epoch != 3 {
		t.Errorf("epoch %d", l.epoch)
	}
}

// O5: a hostile number of keys is let go in parts, and none is forgotten.
func TestEventsAreBounded(t *testing.T) {
	l := newPartitionLog(0, ends{}, wanted{})
	got := 0
	metadata := strings.Repeat("x", 1000)
	for i := range 2000 {
		m := made{at: int64(i), key: offsetKeyBytes(key{"g", "t", int32(i)}), value: offsetValueBytes(3, 1, metadata)}
		if _, err := l.read(m.bytes(t), 1e6, 1e6); err != nil {
			t.Fatal(err)
		}
		got += len(l.take(1e6))
		if l.eventsBytes > gatherBytes {
			t.Fatalf("%d bytes wait", l.eventsBytes)
		}
	}
	if got += len(l.take(l.next)); got != 2000 {
		t.Errorf("%d events", got)
	}
}

// FuzzRead: bytes from a broker give events or an error; what waits and what is
// held is bounded by them (O5), and the place never goes back.
func FuzzRead(f *testing.F) {
	k := offsetKeyBytes(key{"g", "t", 0})
	plain := made{at: 3, key: k, value: offsetValueBytes(3, 9, "m")}.bytes(f)
	held := made{at: 4, producer: 8, attributes: transactional, key: k, value: offsetValueBytes(4, 10, "")}.bytes(f)
	marker := made{at: 5, producer: 8, attributes: transactional | control, key: markerKey(true), value: markerValue}.bytes(f)
	f.Add(append(append(plain, held...), marker...), int64(6), int64(6), int64(0))
	f.Add(held, int64(0), int64(200_000), int64(200_000))
	f.Fuzz(func(t *testing.T, raw []byte, stable, end, told int64) {
		l := newPartitionLog(0, ends{stable: 0, end: max(0, told)}, wanted{})
		from := l.next
		_, err := l.read(raw, stable, end)
		if err != nil && !errors.Is(err, errBytes) {
			t.Fatal(err)
		}
		if l.next < from || l.tracker.held < 0 || l.tracker.held > heldBytes || l.eventsBytes < 0 {
			t.Fatalf("next %d after %d, %d bytes held, %d wait", l.next, from, l.tracker.held, l.eventsBytes)
		}
		for _, e := range l.take(l.next) {
			if e.Source.Offset < l.told || e.Offset < Deleted {
				t.Fatalf("%+v", e)
			}
		}
	})
}
