package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// VisibleOptions choose what CompareVisible reads, and by which rule it judges.
// Only Topics must be given.
type VisibleOptions struct {
	Topics  []string          // on the source; all their partitions
	Rename  map[string]string // target names that differ, by source name
	Clients []Client          // none given: FranzGo
	// Compacted topics, by their source names, are judged by what the promise G1
	// says of them: where both sides hold a record at an offset it is the same;
	// one that only one side still has is superseded there by a later record of
	// its key, or is a tombstone, or has no key; the latest value of each key is
	// the same.
	Compacted []string
	// Drift: copies keep their order and not their offsets. All that both sides show is
	// judged then, whatever their bounds; of Compacted topics the latest value of each
	// key and the order of those.
	Drift bool
}

// Visible is the outcome: what consumers of each kind may see.
type Visible struct{ Views []View }

// View is the target at one isolation, beside the source at read_committed, both
// as one client reads them.
type View struct {
	Client     Client
	Isolation  Isolation // of the target's reader
	Partitions []ViewedPartition
}

// ViewedPartition is what both sides show in the range that both retain.
type ViewedPartition struct {
	Src, Dst             Partition
	SrcBounds, DstBounds Bounds
	Records              int64       // of the source in that range
	First                *Difference // nil if the range is equal by the topic's rule
}

// Equal says whether nothing differs in any view. As with Comparison, it says
// nothing about how much there was, or where the logs end.
func (v Visible) Equal() bool {
	return v.each(func(p ViewedPartition) bool { return p.First == nil })
}

// SameBounds says whether every partition starts and ends alike on both sides,
// at each isolation: a target with an open transaction does not.
func (v Visible) SameBounds() bool {
	return v.each(func(p ViewedPartition) bool { return p.SrcBounds == p.DstBounds })
}

func (v Visible) each(holds func(ViewedPartition) bool) bool {
	for _, view := range v.Views {
		for _, p := range view.Partitions {
			if !holds(p) {
				return false
			}
		}
	}
	return true
}

// Records is how many source records the view with the fewest has compared.
func (v Visible) Records() int64 {
	least := int64(-1)
	for _, view := range v.Views {
		var n int64
		for _, p := range view.Partitions {
			n += p.Records
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return max(0, least)
}

// String lists what differs, in full.
func (v Visible) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d records seen in each of %d ways", v.Records(), len(v.Views))
	for _, view := range v.Views {
		for _, p := range view.Partitions {
			if p.SrcBounds != p.DstBounds {
				fmt.Fprintf(&b, "\n%s, %s: %s has %+v, on the target %+v", view.Client, view.Isolation, p.Src, p.SrcBounds, p.DstBounds)
			}
			if p.First != nil {
				fmt.Fprintf(&b, "\n%s, %s: %s differs %s", view.Client, view.Isolation, p.Src, p.First)
			}
		}
	}
	return b.String()
}

// CompareVisible lets each client read the source at read_committed and the
// target at both isolations, and compares what they have seen: the same records
// at the same offsets (G2). Everything is held in memory, some 200 bytes a record:
// CompareClusters is for logs that are larger. Neither side may be written to.
func CompareVisible(ctx context.Context, src, dst Cluster, o VisibleOptions) (Visible, error) {
	if len(o.Topics) == 0 {
		return Visible{}, errors.New("compare: no topics")
	}
	if len(o.Clients) == 0 {
		o.Clients = []Client{FranzGo}
	}
	var v Visible
	for _, client := range o.Clients {
		views, err := viewWith(ctx, client, src, dst, o)
		if err != nil {
			return Visible{}, fmt.Errorf("compare: %w", err)
		}
		v.Views = append(v.Views, views...)
	}
	for _, view := range v.Views {
		for _, p := range view.Partitions {
			if p.First != nil && !o.Drift {
				describeDifference(ctx, src, dst, p, view.Isolation)
			}
		}
	}
	return v, nil
}

func viewWith(ctx context.Context, client Client, src, dst Cluster, o VisibleOptions) ([]View, error) {
	target := CompareOptions{Rename: o.Rename}.target
	var targets []string
	for _, topic := range o.Topics {
		targets = append(targets, target(topic))
	}
	isolations := []Isolation{ReadUncommitted, ReadCommitted}
	seen := make([]map[Partition]Reading, len(isolations)+1)
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		seen[0], err = ReadWith(ctx, client, src, ReadCommitted, o.Topics...)
		return err
	})
	for i, isolation := range isolations {
		reads.Go(func() (err error) {
			seen[i+1], err = ReadWith(ctx, client, dst, isolation, targets...)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var views []View
	for i, isolation := range isolations {
		view := View{Client: client, Isolation: isolation}
		for _, p := range slices.SortedFunc(maps.Keys(seen[0]), comparePartitions) {
			q := Partition{target(p.Topic), p.Number}
			there, ok := seen[i+1][q]
			if !ok {
				return nil, fmt.Errorf("the target has no %s", q)
			}
			view.Partitions = append(view.Partitions, o.judge(p, q, seen[0][p], there))
		}
		views = append(views, view)
	}
	return views, nil
}

// judge applies the rule that holds for a topic.
func (o VisibleOptions) judge(p, q Partition, src, dst Reading) ViewedPartition {
	cleaned := slices.Contains(o.Compacted, p.Topic)
	switch {
	case o.Drift:
		return judgeOrder(p, q, src, dst, cleaned)
	case cleaned:
		return judge(p, q, src, dst, differCleaned)
	default:
		return judge(p, q, src, dst, differExactly)
	}
}

// judgeOrder compares what both sides show in its order, without the offsets.
func judgeOrder(p, q Partition, src, dst Reading, cleaned bool) ViewedPartition {
	a, b := src.Seen, dst.Seen
	v := ViewedPartition{Src: p, Dst: q, SrcBounds: src.Bounds, DstBounds: dst.Bounds, Records: int64(len(a))}
	if cleaned {
		a, b = lastValues(a), lastValues(b)
	}
	for i := range max(len(a), len(b)) {
		switch {
		case i == len(a):
			v.First = &Difference{Offset: src.Bounds.End}
		case i == len(b) || a[i].Digest != b[i].Digest:
			v.First = &Difference{Offset: a[i].Offset}
		default:
			continue
		}
		break
	}
	return v
}

// lastValues are the records that no cleaner may take, in their order.
func lastValues(seen []Sighting) (last []Sighting) {
	latest := latest(seen)
	for _, s := range seen {
		if s.Key != "" && !s.Tombstone && latest[s.Key].Offset == s.Offset {
			last = append(last, s)
		}
	}
	return last
}

// judge applies a rule to the range that both sides retain.
func judge(p, q Partition, src, dst Reading, rule func(src, dst []Sighting) (int64, bool)) ViewedPartition {
	from := max(src.Bounds.Start, dst.Bounds.Start)
	to := max(from, min(src.Bounds.End, dst.Bounds.End))
	a, b := within(src.Seen, from, to), within(dst.Seen, from, to)
	v := ViewedPartition{Src: p, Dst: q, SrcBounds: src.Bounds, DstBounds: dst.Bounds, Records: int64(len(a))}
	if at, differs := rule(a, b); differs {
		v.First = &Difference{Offset: at}
	}
	return v
}

func within(seen []Sighting, from, to int64) []Sighting {
	search := func(at int64) int {
		i, _ := slices.BinarySearchFunc(seen, at, func(s Sighting, at int64) int { return cmp.Compare(s.Offset, at) })
		return i
	}
	return seen[search(from):search(to)]
}

// differExactly gives the first offset at which two sequences part.
func differExactly(src, dst []Sighting) (at int64, differs bool) {
	for i := range min(len(src), len(dst)) {
		if src[i] != dst[i] {
			return min(src[i].Offset, dst[i].Offset), true
		}
	}
	switch {
	case len(src) > len(dst):
		return src[len(dst)].Offset, true
	case len(dst) > len(src):
		return dst[len(src)].Offset, true
	}
	return 0, false
}

// differCleaned gives the first offset at which two sequences break the rule for
// logs whose cleaners run on their own.
func differCleaned(src, dst []Sighting) (at int64, differs bool) {
	srcLatest, dstLatest := latest(src), latest(dst)
	for i, j := 0, 0; i < len(src) || j < len(dst); {
		switch {
		case j == len(dst) || i < len(src) && src[i].Offset < dst[j].Offset:
			if !mayBeAlone(src[i], srcLatest, dstLatest) {
				return src[i].Offset, true
			}
			i++
		case i == len(src) || dst[j].Offset < src[i].Offset:
			if !mayBeAlone(dst[j], dstLatest, srcLatest) {
				return dst[j].Offset, true
			}
			j++
		case src[i] != dst[j]:
			return src[i].Offset, true
		default:
			i, j = i+1, j+1
		}
	}
	return 0, false
}

func latest(seen []Sighting) map[string]Sighting {
	m := map[string]Sighting{}
	for _, s := range seen {
		m[s.Key] = s
	}
	return m
}

// mayBeAlone says whether the other side may lack a record: it is superseded
// here, or it is a tombstone, whose key must then have no value there either.
// Cleaners also drop what has no key, left from before a topic was compacted.
func mayBeAlone(s Sighting, here, there map[string]Sighting) bool {
	if s.Key == "" || here[s.Key].Offset > s.Offset {
		return true
	}
	other, held := there[s.Key]
	return s.Tombstone && (!held || other.Tombstone)
}

// describeDifference fills in what both sides hold at the offset. It is for the
// reader of a failed test: what cannot be read again stays out.
func describeDifference(ctx context.Context, src, dst Cluster, v ViewedPartition, isolation Isolation) {
	v.First.Src = recordAt(ctx, src, v.Src, ReadCommitted, v.First.Offset)
	v.First.Dst = recordAt(ctx, dst, v.Dst, isolation, v.First.Offset)
}

func recordAt(ctx context.Context, c Cluster, p Partition, isolation Isolation, at int64) (found *kgo.Record) {
	_, err := readRange(ctx, c, p, ReadOptions{Isolation: isolation, From: at, To: at + 1}, func(r *kgo.Record) { found = r })
	if err != nil {
		return nil
	}
	return found
}
