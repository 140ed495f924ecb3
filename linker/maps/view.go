package maps

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/translate/exact"
)

// View is what is on record. It is not safe for concurrent use.
type View struct {
	held map[Place]*held
	// malformed counts records whose keys could not be read.
	malformed int
}

// held is what is on record of one partition, as stored.
type held struct {
	chunks map[int64][]byte
	cursor []byte
}

func newView() *View { return &View{held: make(map[Place]*held)} }

// Malformed is how many records could not be told to belong to any partition.
func (v *View) Malformed() int { return v.malformed }

// Places are the partitions of a link, sorted.
func (v *View) Places(link string) []Place {
	var all []Place
	for p := range v.held {
		if p.Link == link {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			slices.Compare(a.SourceID[:], b.SourceID[:]), slices.Compare(a.TargetID[:], b.TargetID[:]))
	})
	return all
}

func (v *View) take(records []*kgo.Record) error {
	for _, r := range records {
		v.apply(r.Key, r.Value)
	}
	return nil
}

// apply takes one record; a nil value deletes.
func (v *View) apply(k, value []byte) {
	at, p, err := decodeKey(k)
	if err != nil || at.Kind != kindRuns && at.Kind != kindCursor {
		v.malformed++
		return
	}
	h := v.held[p]
	if h == nil {
		h = &held{chunks: make(map[int64][]byte)}
		v.held[p] = h
	}
	switch {
	case at.Kind == kindCursor:
		h.cursor = value
	case value == nil:
		delete(h.chunks, at.Chunk)
	default:
		h.chunks[at.Chunk] = value
	}
	if h.cursor == nil && len(h.chunks) == 0 {
		delete(v.held, p)
	}
}

// Map gives what is on record of a partition: where nothing is, an empty map and
// the zero Cursor. The last run may be longer than the map says: what was copied
// since goes on in it, until Dst plus that run's records is not the end of what
// this mirror wrote. The error is ErrNewer or ErrCorrupt.
func (v *View) Map(p Place) (*exact.Map, Cursor, error) {
	m, c, _, err := v.read(p)
	return m, c, err
}

// read also tells which chunks there are.
func (v *View) read(p Place) (*exact.Map, Cursor, []chunk, error) {
	h := v.held[p]
	if h == nil {
		return &exact.Map{}, Cursor{}, nil, nil
	}
	var parts [][]exact.Run
	var chunks []chunk
	for _, n := range slices.Sorted(maps.Keys(h.chunks)) {
		part, err := decodeRuns(h.chunks[n])
		if err == nil && len(part) == 0 {
			err = fmt.Errorf("%w: chunk %d is empty", ErrCorrupt, n)
		}
		if err != nil {
			return nil, Cursor{}, nil, place(p, err)
		}
		parts = append(parts, part)
		chunks = append(chunks, chunk{n, len(part), part[len(part)-1].SrcEnd(), h.chunks[n]})
	}
	var c Cursor
	var err error
	if h.cursor != nil {
		if c, err = decodeCursor(h.cursor); err != nil {
			return nil, Cursor{}, nil, place(p, err)
		}
	}
	m, err := join(chunks, parts)
	if err != nil {
		return nil, Cursor{}, nil, place(p, fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	m.Adopt(c.Floor, c.Adopted)
	return m, c, chunks, nil
}

func place(p Place, err error) error {
	return fmt.Errorf("%s: partition %d of topic %s of link %s: %w", TopicName, p.Partition, p.Topic, p.Link, err)
}
