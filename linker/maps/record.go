package maps

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/feed"
	"klink/translate/exact"
)

// TopicName is the topic's name.
const TopicName = "__klink_map"

var (
	// ErrNewer: a record was written by a newer klink than this one.
	ErrNewer = errors.New("a map of a newer version: run a newer klink")
	// ErrCorrupt: what is on record of a partition does not hold together.
	ErrCorrupt = errors.New("the map on record does not hold together")
)

// Place is a mirrored partition: of the source topic with SourceID onto the target
// topic with TargetID.
type Place struct {
	Link, Topic        string
	Partition          int32
	SourceID, TargetID feed.TopicID
}

// Cursor is how far a mirror had come: all source offsets below Src were looked at,
// their copies end at target offset Dst, and the next one gets sequence Seq. Whoever
// rebuilds the map from the target's log need not read below Dst.
type Cursor struct {
	Src, Dst int64
	Seq      int32
	At       time.Time
	// Floor and Adopted are of a map that was begun with the copies of another mirror;
	// see exact.Map.Adopt. A cursor that is put without them leaves them as they are.
	Floor, Adopted int64
}

// The kinds of records.
const (
	kindRuns   = "runs"
	kindCursor = "cursor"
)

// key is a record's key. Its JSON form is stable to the byte, since compaction
// compares bytes.
type key struct {
	Kind      string `json:"kind"`
	Link      string `json:"link"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	SourceID  string `json:"source_id"`
	TargetID  string `json:"target_id"`
	// Chunk numbers the pieces of a map, in their order.
	Chunk int64 `json:"chunk,omitempty"`
}

func (p Place) key(kind string, chunk int64) key {
	return key{kind, p.Link, p.Topic, p.Partition, hex.EncodeToString(p.SourceID[:]), hex.EncodeToString(p.TargetID[:]), chunk}
}

func (k key) encode() ([]byte, error) { return json.Marshal(k) }

func decodeKey(b []byte) (k key, p Place, err error) {
	if err := json.Unmarshal(b, &k); err != nil {
		return k, p, err
	}
	p = Place{Link: k.Link, Topic: k.Topic, Partition: k.Partition}
	if p.SourceID, err = decodeID(k.SourceID); err == nil {
		p.TargetID, err = decodeID(k.TargetID)
	}
	return k, p, err
}

func decodeID(text string) (id feed.TopicID, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%q is no topic id", text)
	}
	return feed.TopicID(raw), nil
}

// cursorVersion is that of a cursor's value; runs carry their own.
const cursorVersion = 1

type cursorValue struct {
	Version int       `json:"version"`
	Src     int64     `json:"source_offset"`
	Dst     int64     `json:"target_offset"`
	Seq     int32     `json:"sequence"`
	At      time.Time `json:"at"`
	Floor   int64     `json:"unknown_below,omitempty"`
	Adopted int64     `json:"adopted_below,omitempty"`
}

func encodeCursor(c Cursor) ([]byte, error) {
	return json.Marshal(cursorValue{cursorVersion, c.Src, c.Dst, c.Seq, c.At.UTC(), c.Floor, c.Adopted})
}

func decodeCursor(b []byte) (Cursor, error) {
	var v cursorValue
	switch err := json.Unmarshal(b, &v); {
	case err != nil:
		return Cursor{}, fmt.Errorf("%w: cursor: %w", ErrCorrupt, err)
	case v.Version > cursorVersion:
		return Cursor{}, fmt.Errorf("%w: cursor of version %d, this klink knows %d", ErrNewer, v.Version, cursorVersion)
	case v.Version < 1 || min(v.Src, v.Dst, int64(v.Seq), v.Floor, v.Adopted) < 0:
		return Cursor{}, fmt.Errorf("%w: cursor %s", ErrCorrupt, b)
	}
	return Cursor{v.Src, v.Dst, v.Seq, v.At, v.Floor, v.Adopted}, nil
}

func decodeRuns(b []byte) ([]exact.Run, error) {
	runs, err := exact.Decode(b)
	switch {
	case errors.Is(err, exact.ErrNewer):
		return nil, fmt.Errorf("%w: %w", ErrNewer, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return runs, nil
}
