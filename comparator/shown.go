package comparator

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"klink/fetcher/batch"
)

// shownBytes is how much of a key, value or header is shown.
const shownBytes = 256

// Shown is a record as a report shows it.
type Shown struct {
	Offset int64 `json:"offset"`
	// TimestampMillis is null for none.
	TimestampMillis *int64 `json:"timestamp_millis"`
	// Key and Value are null for null. What is not printable is escaped as in Go,
	// and the end of what is long left out.
	Key        *string       `json:"key"`
	Value      *string       `json:"value"`
	ValueBytes int           `json:"value_bytes"`
	Headers    []ShownHeader `json:"headers"`
	Batch      Origin        `json:"batch"`
	record     batch.Record
}

// ShownHeader is a record's header.
type ShownHeader struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

// Origin is the batch that a record came from.
type Origin struct {
	// Base and Last bound its offsets, both inclusive.
	Base  int64  `json:"base_offset"`
	Last  int64  `json:"last_offset"`
	Codec string `json:"codec"`
	Bytes int    `json:"size_bytes"`
	// ProducerID is -1 for none.
	ProducerID int64 `json:"producer_id"`
}

func show(r batch.Record, p Part) *Shown {
	s := &Shown{Offset: r.Offset, Key: text(r.Key), Value: text(r.Value), ValueBytes: len(r.Value), Headers: []ShownHeader{}, record: r,
		Batch: Origin{Base: p.Base, Last: p.Next - 1, Codec: batch.CodecOf(p.Bytes).String(), Bytes: len(p.Bytes), ProducerID: -1}}
	if r.Timestamp >= 0 {
		s.TimestampMillis = &r.Timestamp
	}
	if h, err := batch.ParseHeader(p.Bytes); err == nil {
		s.Batch.ProducerID = h.ProducerID
	}
	for _, h := range r.Headers {
		s.Headers = append(s.Headers, ShownHeader{Key: *text(h.Key), Value: text(h.Value)})
	}
	return s
}

// text writes bytes for people; nil stays nil.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	cut := b[:min(len(b), shownBytes)]
	s := string(cut)
	if !utf8.Valid(cut) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
	}
	if len(cut) < len(b) {
		s += fmt.Sprintf("... (%d bytes)", len(b))
	}
	return &s
}

// contrast says in what two records differ.
func contrast(a, b batch.Record) string {
	var says []string
	if a.Timestamp != b.Timestamp {
		says = append(says, fmt.Sprintf("timestamp %d, on the target %d", a.Timestamp, b.Timestamp))
	}
	if s := contrastBytes("key", a.Key, b.Key); s != "" {
		says = append(says, s)
	}
	if s := contrastBytes("value", a.Value, b.Value); s != "" {
		says = append(says, s)
	}
	if s := contrastHeaders(a.Headers, b.Headers); s != "" {
		says = append(says, s)
	}
	return strings.Join(says, "; ")
}

func contrastBytes(what string, a, b []byte) string {
	switch {
	case (a == nil) != (b == nil):
		return fmt.Sprintf("%s is %s, on the target %s", what, nullness(a), nullness(b))
	case bytes.Equal(a, b):
		return ""
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%s of %d bytes, on the target of %d, differs from byte %d on", what, len(a), len(b), at)
	}
	return fmt.Sprintf("%s of %d bytes differs from byte %d on", what, len(a), at)
}

func nullness(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%d bytes", len(b))
}

func contrastHeaders(a, b []batch.RecordHeader) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d headers, on the target %d", len(a), len(b))
	}
	for i := range a {
		if !bytes.Equal(a[i].Key, b[i].Key) || !bytes.Equal(a[i].Value, b[i].Value) || (a[i].Value == nil) != (b[i].Value == nil) {
			return fmt.Sprintf("header %d of %d differs", i+1, len(a))
		}
	}
	return ""
}
