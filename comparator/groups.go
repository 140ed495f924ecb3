package comparator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupsFor is how long a target may take to be given what the source's groups
// commit.
const groupsFor = 5 * time.Second

// GroupResult is one consumer group on both sides.
type GroupResult struct {
	Link  string `json:"link"`
	Group string `json:"group"`
	// Equal is the number of offsets that are the same.
	Equal int64 `json:"equal"`
	// Partitions are those whose offsets differ.
	Partitions []GroupDifference `json:"partitions"`
	// Error is why the group could not be compared.
	Error string `json:"error"`
}

// GroupDifference is a committed offset that is not the same on both sides.
type GroupDifference struct {
	SourceTopic string `json:"source_topic"`
	Partition   int32  `json:"partition"`
	// SourceOffset and TargetOffset are null where nothing is committed.
	SourceOffset *int64 `json:"source_offset"`
	TargetOffset *int64 `json:"target_offset"`
	// TranslatedOffset is what SourceOffset is on the target; absent in mirror mode,
	// where it is the same.
	TranslatedOffset *int64 `json:"translated_offset,omitempty"`
	Kind             Kind   `json:"kind"`
	Detail           string `json:"detail"`
}

// committed are a group's offsets by partition of the source's topics.
type committed map[PartitionName]commit

type commit struct {
	offset   int64
	metadata string
}

// same reports whether a group goes on with the same record on the target as on the
// source; c is nil in mirror mode.
func (s commit) same(there commit, c *Copied) bool {
	if c == nil {
		return s == there
	}
	return s.metadata == there.metadata && c.reads(there.offset, s.offset)
}

// contrastGroup compares a group's offsets. A source that goes on between two
// looks may have committed either; before and after are those looks. copies are those
// of partitions in checkpoint mode.
func contrastGroup(before, dst, after committed, copies map[PartitionName]*Copied) (equal int64, out []GroupDifference) {
	names := make(map[PartitionName]bool)
	for _, m := range []committed{before, dst, after} {
		for n := range m {
			names[n] = true
		}
	}
	for n := range names {
		first, had := before[n]
		last, has := after[n]
		there, copied := dst[n]
		c := copies[n]
		d := GroupDifference{SourceTopic: n.Topic, Partition: n.Partition, SourceOffset: committedOffset(last, has), TargetOffset: committedOffset(there, copied)}
		want := last.offset
		if c != nil && has {
			want, _ = c.target(last.offset)
			d.TranslatedOffset = &want
		}
		switch {
		case copied && (had && first.same(there, c) || has && last.same(there, c)):
			equal++
			continue
		case c != nil && has && (len(c.Runs) == 0 || last.offset < c.Begins):
			continue // nothing is copied to go on with, or it is not known where that lies
		case !copied && (!had || !has):
			continue // it came or went between the looks
		case !copied:
			d.Kind, d.Detail = Missing, "nothing is committed on the target"
		case !has:
			d.Kind, d.Detail = Extra, "nothing is committed on the source"
		case there.offset == last.offset && c == nil || c != nil && c.reads(there.offset, last.offset):
			d.Kind, d.Detail = Changed, "the offsets are equal and their metadata is not"
		default:
			d.Kind, d.Detail = Changed, fmt.Sprintf("the target's offset is %+d", there.offset-want)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b GroupDifference) int {
		return PartitionName{a.SourceTopic, a.Partition}.compare(PartitionName{b.SourceTopic, b.Partition})
	})
	return equal, out
}

func committedOffset(c commit, ok bool) *int64 {
	if !ok {
		return nil
	}
	return &c.offset
}

// groupLook is what a look at groups needs.
type groupLook struct {
	src, dst *kgo.Client
	wanted   func(group string) bool
	// names are the source's names of the topics that are compared, by the names
	// they have on each side.
	names [2]map[string]string
	// copies tells where the copies of a partition lie by now, nil in mirror mode; it
	// may be nil, and then all are.
	copies func(ctx context.Context, n PartitionName) (*Copied, error)
}

// compareGroups compares the offsets of all groups that are wanted and exist on
// either side. Where they differ it looks again while a mirror may still be at
// it.
func (g *groupLook) compareGroups(ctx context.Context) ([]GroupResult, error) {
	groups, err := g.list(ctx)
	if err != nil || len(groups) == 0 {
		return []GroupResult{}, err
	}
	deadline := time.Now().Add(groupsFor)
	for {
		out, equal, err := g.once(ctx, groups)
		if err != nil || equal || time.Now().After(deadline) {
			return out, err
		}
		again := lookEvery
		if g.copies != nil {
			again = copiesEvery
		}
		if !sleep(ctx, again) {
			return nil, ctx.Err()
		}
	}
}

func (g *groupLook) list(ctx context.Context) ([]string, error) {
	seen := make(map[string]bool)
	for side, cl := range []*kgo.Client{g.src, g.dst} {
		all, err := kadm.NewClient(cl).ListGroups(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: list groups: %w", Side(side), err)
		}
		for name := range all {
			if g.wanted(name) {
				seen[name] = true
			}
		}
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (g *groupLook) once(ctx context.Context, groups []string) (out []GroupResult, equal bool, err error) {
	equal = true
	before := g.fetch(ctx, Source, groups)
	dst := g.fetch(ctx, Target, groups)
	after := g.fetch(ctx, Source, groups)
	copies, failed := g.learnCopies(ctx, before, after)
	for _, name := range groups {
		r := GroupResult{Group: name, Partitions: []GroupDifference{}}
		for _, f := range []fetched{before[name], dst[name], after[name]} {
			if f.err != nil {
				r.Error = f.err.Error()
			}
		}
		if failed != nil {
			r.Error = failed.Error()
		}
		if r.Error == "" {
			same, differences := contrastGroup(before[name].offsets, dst[name].offsets, after[name].offsets, copies)
			r.Equal, r.Partitions = same, append(r.Partitions, differences...)
		}
		if r.Equal == 0 && len(r.Partitions) == 0 && r.Error == "" {
			continue // it has nothing to do with the topics
		}
		equal = equal && len(r.Partitions) == 0 && r.Error == ""
		out = append(out, r)
	}
	return append([]GroupResult{}, out...), equal, ctx.Err()
}

// learnCopies finds out where the copies lie of partitions that the source's groups
// committed in. It is asked after that, so that what they read is copied, or is not.
func (g *groupLook) learnCopies(ctx context.Context, looks ...map[string]fetched) (map[PartitionName]*Copied, error) {
	if g.copies == nil {
		return nil, nil
	}
	out := make(map[PartitionName]*Copied)
	for _, look := range looks {
		for _, f := range look {
			for n := range f.offsets {
				if _, known := out[n]; known {
					continue
				}
				var err error
				if out[n], err = g.copies(ctx, n); err != nil {
					return nil, fmt.Errorf("partition %d of %s: %w", n.Partition, n.Topic, err)
				}
			}
		}
	}
	return out, nil
}

type fetched struct {
	offsets committed
	err     error
}

func (g *groupLook) fetch(ctx context.Context, side Side, groups []string) map[string]fetched {
	cl := g.src
	if side == Target {
		cl = g.dst
	}
	out := make(map[string]fetched)
	for name, r := range kadm.NewClient(cl).FetchManyOffsets(ctx, groups...) {
		out[name] = g.told(side, r)
	}
	return out
}

// told is what a cluster's answer says of one group. One that it does not know has
// no offsets there: brokers answer so, or with none, and klink's own group is on the
// target alone.
func (g *groupLook) told(side Side, r kadm.FetchOffsetsResponse) fetched {
	f := fetched{offsets: make(committed)}
	if r.Err != nil && !errors.Is(r.Err, kerr.GroupIDNotFound) {
		f.err = fmt.Errorf("%s: %w", side, r.Err)
	}
	r.Fetched.Each(func(o kadm.OffsetResponse) {
		source, ours := g.names[side][o.Topic]
		if ours && o.Err == nil && o.At >= 0 {
			f.offsets[PartitionName{source, o.Partition}] = commit{o.At, o.Metadata}
		}
	})
	return f
}
