package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
)

var rewrite = flag.Bool("rewrite", false, "write the expected decisions anew instead of comparing with them")

// TestScripts plays source shapes written as text against the planner and
// compares the decisions, also as text. A block is a title, what the source
// holds, and after "----" what is decided:
//
//	limits max=N            the target's max.message.bytes
//	next N                  the target's log end
//	batch A-B [count=N] [size=N] [codec=C] [epoch=N] [pid=N] [txn|control|append-time|horizon]
//	old A-B                 a message set of format v0 or v1
//	aborted pid=N from=N    an aborted transaction that came with the fetch
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

func play(t *testing.T, input string) string {
	t.Helper()
	lim := DefaultLimits()
	var next int64
	var entries []Entry
	var aborted []feed.Aborted
	for _, line := range strings.Split(input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		args := options(words[1:])
		switch words[0] {
		case "limits":
			lim.MaxBatchBytes = int(number(t, args["max"]))
		case "next":
			next = number(t, words[1])
		case "batch":
			entries = append(entries, scriptBatch(t, words[1], args))
		case "old":
			base, last := span(t, words[1])
			entries = append(entries, Entry{Old: true, OldBase: base, OldLast: last, SizeBytes: 100})
		case "aborted":
			aborted = append(aborted, feed.Aborted{ProducerID: number(t, args["pid"]), FirstOffset: number(t, args["from"])})
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	var out []string
	for {
		s := Next(next, entries, aborted, lim)
		out = append(out, describe(s))
		switch s.Kind {
		case Wait, Halt:
			return strings.Join(out, "\n")
		case Drop:
		default:
			if s.Base != next || s.End <= next {
				t.Fatalf("P1 broken: step %+v at next %d", s, next)
			}
			next = s.End
		}
		entries = entries[s.Entries:]
	}
}

func describe(s Step) string {
	switch s.Kind {
	case Wait:
		return "wait"
	case Halt:
		return fmt.Sprintf("halt %s at %d: %s", s.Reason, s.Base, s.Detail)
	}
	return fmt.Sprintf("%s %d: [%d,%d) epoch %d", s.Kind, s.Entries, s.Base, s.End, s.Epoch)
}

func scriptBatch(t *testing.T, offsets string, args map[string]string) Entry {
	t.Helper()
	base, last := span(t, offsets)
	h := batch.Header{BaseOffset: base, LastOffsetDelta: int32(last - base), Magic: 2, Count: int32(last-base) + 1, ProducerID: -1}
	e := Entry{SizeBytes: 100_000}
	for k, v := range args {
		switch k {
		case "count":
			h.Count = int32(number(t, v))
		case "size":
			e.SizeBytes = int(number(t, v))
		case "epoch":
			h.LeaderEpoch = int32(number(t, v))
		case "pid":
			h.ProducerID = number(t, v)
		case "codec":
			h.Attributes |= map[string]int16{"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[v]
		case "append-time":
			h.Attributes |= 0x08
		case "txn":
			h.Attributes |= 0x10
		case "control":
			h.Attributes |= 0x20
		case "horizon":
			h.Attributes |= 0x40
		default:
			t.Fatalf("unknown word %q", k)
		}
	}
	e.Header = h
	return e
}

func options(words []string) map[string]string {
	m := map[string]string{}
	for i, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if i == 0 && !ok && strings.Contains(w, "-") && w != "append-time" {
			continue // the offsets
		}
		m[k] = v
	}
	return m
}

func span(t *testing.T, s string) (base, last int64) {
	t.Helper()
	a, b, _ := strings.Cut(s, "-")
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
