package exact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// version is that of the bytes. Another way to write runs needs another one.
const version = 1

const (
	// MaxChunk is up to how many runs a chunk is filled by adding to it: some 1.5 KB.
	MaxChunk = 256
	// MostRuns is the most in one encoded chunk: at a dozen bytes each it stays below
	// 1 MB, which is what a broker takes.
	MostRuns = 1 << 16
)

// minRunBytes is the least that one run takes.
const minRunBytes = 4

var (
	// ErrNewer: the bytes were written by a later klink.
	ErrNewer = errors.New("runs of a later version")
	// ErrCorrupt: the bytes are no runs.
	ErrCorrupt = errors.New("runs do not hold together")
)

// Encode appends runs to b, in order (E1), at most MostRuns of them. Each is
// written by its distance from the one before, so that it takes four to a dozen
// bytes: the gap in source offsets, the gap in target offsets, the count, and by
// how much the sequence is not the one that follows, which is 0 as a rule.
func Encode(b []byte, runs []Run) ([]byte, error) {
	if len(runs) > MostRuns {
		return nil, fmt.Errorf("%d runs in a chunk, at most %d", len(runs), MostRuns)
	}
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(len(runs)))
	var before Run
	for _, r := range runs {
		if err := after(before, r); err != nil {
			return nil, err
		}
		b = binary.AppendUvarint(b, uint64(r.Src-before.SrcEnd()))
		b = binary.AppendUvarint(b, uint64(r.Dst-before.DstEnd()))
		b = binary.AppendUvarint(b, uint64(r.Count))
		b = binary.AppendUvarint(b, uint64(addSeq(r.Seq, -int64(before.SeqEnd()))))
		before = r
	}
	return b, nil
}

// after tells whether a run may follow another one in a map (E1).
func after(before, r Run) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.Src < before.SrcEnd() || r.Dst < before.DstEnd() {
		return fmt.Errorf("the run at source offset %d, target offset %d begins before the end of the one before it, %d and %d", r.Src, r.Dst, before.SrcEnd(), before.DstEnd())
	}
	if before.Count > 0 && before.continues(r) {
		return fmt.Errorf("the run at source offset %d is the rest of the one before it", r.Src)
	}
	return nil
}

// Decode reads what Encode wrote. The error is ErrNewer or ErrCorrupt.
func Decode(b []byte) ([]Run, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: empty", ErrCorrupt)
	}
	if b[0] != version {
		return nil, fmt.Errorf("%w: %d, this klink knows %d", ErrNewer, b[0], version)
	}
	b = b[1:]
	n, b, err := number(b, MostRuns)
	if err != nil {
		return nil, err
	}
	if n > int64(len(b)/minRunBytes) {
		return nil, fmt.Errorf("%w: %d runs in %d bytes", ErrCorrupt, n, len(b))
	}
	runs := make([]Run, n)
	var before Run
	for i := range runs {
		if runs[i], b, err = decodeRun(b, before); err != nil {
			return nil, fmt.Errorf("run %d: %w", i, err)
		}
		before = runs[i]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind them", ErrCorrupt, len(b))
	}
	return runs, nil
}

func decodeRun(b []byte, before Run) (Run, []byte, error) {
	var part [4]int64
	limits := [...]int64{math.MaxInt64 - before.SrcEnd(), math.MaxInt64 - before.DstEnd(), math.MaxInt64, math.MaxInt32}
	for i := range part {
		var err error
		if part[i], b, err = number(b, limits[i]); err != nil {
			return Run{}, nil, err
		}
	}
	r := Run{Src: before.SrcEnd() + part[0], Dst: before.DstEnd() + part[1], Count: part[2], Seq: addSeq(before.SeqEnd(), part[3])}
	if err := after(before, r); err != nil {
		return Run{}, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return r, b, nil
}

// number reads one number of at most limit. It takes only the shortest way to
// write it, so that each row of runs has one form.
func number(b []byte, limit int64) (int64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > uint64(limit) || n > 1 && b[n-1] == 0 {
		return 0, nil, fmt.Errorf("%w: no number of at most %d", ErrCorrupt, limit)
	}
	return int64(v), b[n:], nil
}

// FromRuns makes a map of runs that follow one another (E1), as several chunks
// give them; it is settled. src is how far the source was looked at; see Map.Advance.
func FromRuns(runs []Run, src int64) (*Map, error) {
	m := &Map{}
	var before Run
	for _, r := range runs {
		if r.Src < before.SrcEnd() || r.Dst < before.DstEnd() {
			return nil, fmt.Errorf("%w: the run at source offset %d begins before the end of the one before it", ErrCorrupt, r.Src)
		}
		if err := m.Add(r); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		before = r
	}
	m.Advance(src)
	m.Settled()
	return m, nil
}
