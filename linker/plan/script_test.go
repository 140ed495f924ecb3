package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/ledger"
)

var rewrite = flag.Bool("rewrite", false, "write the expected decisions anew instead of comparing with them")

// TestScripts plays source shapes written as text against the planner and
// compares the decisions, also as text. A block is a title, what the source
// holds, and after "----" what is decided:
//
//	policy [gaps=halt|markers|records] [compacted] [overrun=pad] [pad=N]
//	limits [max=N] [fill=N]     the target's max.message.bytes, offsets per fill
//	next N                      the target's log end
//	fetch                       the lines up to the next fetch come in one answer
//	aborted pid=N from=N        an aborted transaction listed in that answer
//	batch A-B [count=N] [size=N] [codec=C] [epoch=N] [pid=N] [txn|append-time|horizon]
//	commit|abort|emptied A [epoch=N] [pid=N]    a transaction marker
//	old A-B                     a message set of format v1
//
// and of the other decisions, each by itself:
//
//	tail [stable=N] [alone] [throttled] [empty=N] [moved] [epoch=N]
//	start src=A-B dst=A-B [from=N] [goal=N]
//	overrun start=N
//	pieces end=N A-B ...
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
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
				t.Errorf("decisions differ (-want +got); read them, then run with -rewrite:\n%s", d)
			}
		})
	}
}

// script is a block as read so far.
type script struct {
	next int64
	pol  Policy
	lim  Limits
	// fetches are the answers whose entries wait to be decided on.
	fetches []answer
	out     []string
}

type answer struct {
	raw     [][]byte
	aborted []feed.Aborted
}

func play(t *testing.T, input string) string {
	t.Helper()
	s := script{lim: DefaultLimits(), fetches: []answer{{}}}
	for _, line := range strings.Split(input, "\n") {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			s.line(t, words)
		}
	}
	for _, f := range s.fetches {
		if len(f.raw) == 0 && len(s.out) > 0 {
			continue // a block of other decisions
		}
		if !s.decide(t, f) {
			break
		}
	}
	return strings.Join(s.out, "\n")
}

func (s *script) line(t *testing.T, words []string) {
	t.Helper()
	at, args := "", options(t, words[1:])
	if len(words) > 1 {
		at = words[1]
	}
	f := &s.fetches[len(s.fetches)-1]
	switch words[0] {
	case "policy":
		s.policy(t, args)
	case "limits":
		s.lim.MaxBatchBytes = int(args.number(t, "max", 0))
		s.lim.MaxFillOffsets = args.number(t, "fill", DefaultMaxFillOffsets)
	case "next":
		s.next = number(t, at)
	case "fetch":
		s.fetches = append(s.fetches, answer{})
	case "aborted":
		f.aborted = append(f.aborted, feed.Aborted{ProducerID: args.number(t, "pid", -1), FirstOffset: args.number(t, "from", 0)})
	case "batch", "old", "commit", "abort", "emptied":
		f.raw = append(f.raw, scriptShape(t, words[0], at, args).bytes(t))
	case "tail":
		s.out = append(s.out, describe(Tail(s.next, evidence(t, args), s.pol, s.lim)))
	case "start":
		s.out = append(s.out, describe(StartAt(scriptStart(t, args), s.pol)))
	case "overrun":
		s.out = append(s.out, describe(Overrun(s.next, args.number(t, "start", 0), s.pol)))
	case "pieces":
		s.out = append(s.out, s.pieces(t, words[2:], args.number(t, "end", 0)))
	default:
		t.Fatalf("unknown line %q", words)
	}
}

func (s *script) policy(t *testing.T, args args) {
	t.Helper()
	s.pol = Policy{PadLimit: args.number(t, "pad", 0)}
	for _, w := range []GapWay{FillHalt, FillMarkers, FillRecords} {
		if args["gaps"] == w.String() {
			s.pol.Gaps = w
		}
	}
	for _, w := range []OverrunWay{HaltOverrun, PadOverrun} {
		if args["overrun"] == w.String() {
			s.pol.Overrun = w
		}
	}
	if _, ok := args["compacted"]; ok {
		s.pol.Compaction = Compacted
	}
}

// decide plays one answer to its end and tells whether another may follow.
func (s *script) decide(t *testing.T, f answer) bool {
	t.Helper()
	entries, err := ReadEntries(nil, f.raw, f.aborted)
	if err != nil {
		s.out = append(s.out, "error: "+err.Error())
		return false
	}
	for {
		step := Next(s.next, entries, s.pol, s.lim)
		s.out = append(s.out, describe(step))
		switch step.Kind {
		case Halt:
			return false
		case Wait:
			if step.Entries == len(entries) {
				return true
			}
		case Drop:
		default:
			if step.Base != s.next || step.End <= s.next {
				t.Fatalf("P1 broken: step %+v at next %d", step, s.next)
			}
			s.next = step.End
		}
		entries = entries[step.Entries:]
	}
}

func (s *script) pieces(t *testing.T, words []string, end int64) string {
	t.Helper()
	var pieces []Piece
	for _, w := range words {
		base, last := span(t, w)
		pieces = append(pieces, Piece{base, int32(last-base) + 1})
	}
	moves, err := Pieces(s.next, end, pieces)
	if err != nil {
		return "error: " + err.Error()
	}
	at := s.next
	var out []string
	for _, m := range moves {
		if m.Piece >= 0 {
			p := pieces[m.Piece]
			out = append(out, fmt.Sprintf("append [%d,%d)", p.Base, p.Base+int64(p.Count)))
			at += int64(p.Count)
			continue
		}
		if halt, refused := RefuseHole(at, m.Hole, s.pol); refused {
			return strings.Join(append(out, describe(halt)), "\n")
		}
		out = append(out, fmt.Sprintf("fill [%d,%d): %s", at, at+m.Hole.Count, runs([]ledger.Run{m.Hole})))
		at += m.Hole.Count
	}
	return strings.Join(out, "\n")
}

func describe(s Step) string {
	switch s.Kind {
	case Wait:
		out := "wait"
		if s.Entries > 0 {
			out += fmt.Sprintf(" %d", s.Entries)
		}
		if s.Detail != "" {
			out += ": " + s.Detail
		}
		return out
	case AskAlone:
		return s.Kind.String()
	case Halt:
		return fmt.Sprintf("halt %s at %d: %s", s.Reason, s.Base, s.Detail)
	case Pad, PadOver:
		return strings.TrimSpace(fmt.Sprintf("%s [%d,%d) %s", s.Kind, s.Base, s.End, runs(s.Runs)))
	}
	out := fmt.Sprintf("%s %d: [%d,%d) epoch %d", s.Kind, s.Entries, s.Base, s.End, s.Epoch)
	if len(s.Runs) > 0 {
		out += " " + runs(s.Runs)
	}
	return out
}

func runs(rs []ledger.Run) string {
	var out []string
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s %d", r.Reason, r.Count))
	}
	return strings.Join(out, ", ")
}

func scriptShape(t *testing.T, word, offsets string, args args) shape {
	t.Helper()
	s := shape{pid: args.number(t, "pid", -1), epoch: int32(args.number(t, "epoch", 0)), size: int(args.number(t, "size", 100_000))}
	s.base, s.last = span(t, offsets)
	s.count = int32(args.number(t, "count", s.last-s.base+1))
	switch word {
	case "old":
		s.old = true
	case "commit", "abort", "emptied":
		s.marker = word
	}
	s.attributes = map[string]int16{"gzip": int16(batch.CodecGzip), "snappy": int16(batch.CodecSnappy), "lz4": int16(batch.CodecLZ4), "zstd": int16(batch.CodecZstd)}[args["codec"]]
	for word, bit := range map[string]int16{"append-time": appendTimeBit, "txn": txnBit, "horizon": horizonBit} {
		if _, ok := args[word]; ok {
			s.attributes |= bit
		}
	}
	return s
}

func evidence(t *testing.T, args args) Evidence {
	t.Helper()
	q := Evidence{LastStable: args.number(t, "stable", feed.Unknown), Empty: int(args.number(t, "empty", 0)),
		LeaderEpoch: int32(args.number(t, "epoch", 0)), LeaderEpochUnchanged: true}
	for word := range args {
		switch word {
		case "alone":
			q.Alone = true
		case "throttled":
			q.Throttled = time.Second
		case "moved":
			q.LeaderEpochUnchanged = false
		}
	}
	return q
}

func scriptStart(t *testing.T, args args) Start {
	t.Helper()
	s := Start{Goal: args.number(t, "goal", feed.Unknown)}
	s.SrcStart, s.SrcEnd = span(t, args["src"])
	s.DstStart, s.DstEnd = span(t, args["dst"])
	s.From = args.number(t, "from", s.SrcStart)
	return s
}

// args are the words of a line: those with a value and those without.
type args map[string]string

// known are all options, so that a misspelt one is not taken for none.
var known = strings.Fields("gaps compacted overrun pad max fill pid from count size codec epoch txn append-time horizon" +
	" stable alone throttled empty moved src dst goal start end")

func options(t *testing.T, words []string) args {
	t.Helper()
	m := args{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		offsets := k[0] >= '0' && k[0] <= '9'
		if !offsets && !slices.Contains(known, k) {
			t.Fatalf("unknown word %q", w)
		}
		m[k] = v
	}
	return m
}

func (a args) number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	if v, ok := a[name]; ok {
		return number(t, v)
	}
	return otherwise
}

// span reads "A-B", or "A" for one offset.
func span(t *testing.T, s string) (base, last int64) {
	t.Helper()
	a, b, two := strings.Cut(s, "-")
	if !two {
		b = a
	}
	return number(t, a), number(t, b)
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
