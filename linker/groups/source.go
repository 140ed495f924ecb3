package groups

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/fetcher/feed"
	"klink/linker/remote"
)

const (
	// askTimeout bounds one question, with kgo's own retries.
	askTimeout = 5 * time.Second
	// groupsPerAsk bounds one answer: with offsets on a hundred partitions each
	// these are some hundred kilobytes.
	groupsPerAsk = 200
	// asksAtOnce is how many questions are under way: brokers answer those of one
	// connection in turn anyway, so this is about several brokers.
	asksAtOnce = 16
)

// cluster asks one side.
type cluster struct {
	cl  *kgo.Client
	adm *kadm.Client
	// side is source or target, for messages.
	side string
}

func newCluster(cl *kgo.Client, side string) cluster { return cluster{cl, kadm.NewClient(cl), side} }

// list lists all groups of all coordinators. The error is of the brokers that did
// not answer; the groups of the others are there all the same.
func (c cluster) list(ctx context.Context) (kadm.ListedGroups, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	listed, err := c.adm.ListGroups(ctx)
	return listed, remote.Classify("list groups of the "+c.side, remote.Right("Describe", "group", "*"), err)
}

// groupOffsets is what a coordinator answered for one group.
type groupOffsets struct {
	offsets kadm.OffsetResponses
	// err is why it answered nothing.
	err error
}

// offsets asks for all offsets of groups in one request per coordinator, with
// what is settled of transactions (C021: RequireStable is false, so an offset
// that is pending is left out and the one before it told). A group that is not
// there has none.
func (c cluster) offsets(ctx context.Context, groups []string) map[string]groupOffsets {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := make(map[string]groupOffsets, len(groups))
	fetched := c.adm.FetchManyOffsets(ctx, groups...)
	for _, g := range groups {
		f, ok := fetched[g]
		switch {
		case !ok:
			f.Err = errNotAnswered
		case errors.Is(f.Err, kerr.GroupIDNotFound):
			f.Err = nil
		}
		out[g] = groupOffsets{f.Fetched, remote.Classify("read offsets of group "+g+" on the "+c.side, remote.Right("Describe", "group", g), f.Err)}
	}
	return out
}

var errNotAnswered = errors.New("the answer leaves the group out")

// eachChunk splits groups so that each piece is of one coordinator, and has all
// worked on at once: a coordinator that is away holds up its own groups alone.
func eachChunk(groups []string, at func(group string) int32, work func(chunk []string)) {
	by := make(map[int32][]string)
	for _, g := range groups {
		by[at(g)] = append(by[at(g)], g)
	}
	g := new(errgroup.Group)
	g.SetLimit(asksAtOnce)
	for _, names := range by {
		for chunk := range slices.Chunk(names, groupsPerAsk) {
			g.Go(func() error { work(chunk); return nil })
		}
	}
	_ = g.Wait() // the functions return no errors
}

// carried tells of a listed group whether its commits are offsets of a consumer:
// share groups keep another kind of state, streams groups more than offsets.
func carried(g kadm.ListedGroup) bool {
	return g.GroupType == "" || g.GroupType == "classic" || g.GroupType == "consumer"
}

// peer is what the target's listing means for one group (U1). Brokers before 2.6
// tell no state; there the refusal of the coordinator alone protects.
func peer(g kadm.ListedGroup) Peer {
	p := Peer{Members: HasMembers, Coordinator: g.Coordinator}
	switch g.State {
	case "Empty", "Dead", "":
		p.Members = NoMembers
	}
	return p
}

// answers turns what a coordinator of the source told into Answers: the offsets
// on topics that are mirrored.
func answers(got map[string]groupOffsets, mirrored func(topic string) bool, asked time.Time) []Answer {
	out := make([]Answer, 0, len(got))
	for g, t := range got {
		a := Answer{Group: g, Trouble: verdictOf(t.err), Asked: asked}
		t.offsets.Each(func(o kadm.OffsetResponse) {
			if o.Err != nil || !mirrored(o.Topic) {
				return
			}
			a.Offsets = append(a.Offsets, SourceOffset{Partition: feed.Partition{Topic: o.Topic, Partition: o.Partition}, Offset: o.At, Metadata: o.Metadata})
		})
		out = append(out, a)
	}
	return out
}
