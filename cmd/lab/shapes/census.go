package shapes

import (
	"context"

	"klink/cmd/lab"
)

// Census counts what a partition's log holds, as raw Fetch shows it.
type Census struct {
	Bounds  lab.Bounds
	Batches int
	Records int64 // -1 if compressed old messages hide how many there are

	Holed       int   // batches out of which some records were taken
	HeaderOnly  int   // batches without records
	Gone        int64 // offsets between the log's start and end that no batch covers
	Straddling  bool  // the first batch begins before the log's start
	LastVisible int64 // the last offset of a data batch with records; -1 without
	Newest      lab.Batch

	Transactional   int // data batches of transactions
	Commits, Aborts int // markers
	Interleaved     int // transactions inside which others wrote
	Open            int // transactions without a marker

	Horizons   int // data batches with a delete horizon
	AppendTime int // batches with the broker's time
	Old        [2]int
	OldCodecs  [2]map[int8]int // compressed messages of magic 0 and 1 by codec
	Widest     int32           // records of the largest batch
}

// Take scans a partition.
func Take(ctx context.Context, c lab.Cluster, p lab.Partition) (Census, error) {
	batches, bounds, err := lab.Scan(ctx, c, p)
	if err != nil {
		return Census{}, err
	}
	return count(batches, bounds), nil
}

func count(batches []lab.Batch, bounds lab.Bounds) Census {
	census := Census{Bounds: bounds, Batches: len(batches), LastVisible: -1, OldCodecs: [2]map[int8]int{{}, {}}}
	census.Straddling = len(batches) > 0 && batches[0].Base < bounds.Start && batches[0].Magic == 2
	next := bounds.Start
	open := map[int64]int{} // by producer, where its transaction began
	for i, b := range batches {
		if b.Magic < 2 {
			census.countOld(b)
		} else {
			census.countBatch(b)
			census.Gone += max(0, b.Base-next)
		}
		next, census.Newest = b.Last+1, b
		switch {
		case b.Control:
			if begun, ok := open[b.ProducerID]; ok && othersWrote(batches[begun:i], b.ProducerID) {
				census.Interleaved++
			}
			delete(open, b.ProducerID)
		case b.Transaction:
			if _, ok := open[b.ProducerID]; !ok {
				open[b.ProducerID] = i
			}
		}
	}
	census.Gone += max(0, bounds.End-next)
	census.Open = len(open)
	return census
}

func (c *Census) countOld(b lab.Batch) {
	c.Old[b.Magic]++
	c.LastVisible = b.Last
	if b.Codec != 0 {
		c.OldCodecs[b.Magic][b.Codec]++
		c.Records = -1
	} else if c.Records >= 0 {
		c.Records++
	}
	if b.AppendTime {
		c.AppendTime++
	}
}

func (c *Census) countBatch(b lab.Batch) {
	flag := func(n *int, holds bool) {
		if holds {
			*n++
		}
	}
	c.Widest = max(c.Widest, b.Count)
	flag(&c.HeaderOnly, b.Count == 0)
	flag(&c.Commits, b.Control && b.Count > 0 && b.Commit)
	flag(&c.Aborts, b.Control && b.Count > 0 && !b.Commit)
	flag(&c.AppendTime, b.AppendTime)
	if b.Control {
		return
	}
	flag(&c.Holed, b.Holes())
	flag(&c.Horizons, b.Horizon)
	flag(&c.Transactional, b.Transaction)
	if c.Records >= 0 {
		c.Records += int64(b.Count)
	}
	if b.Count > 0 {
		c.LastVisible = b.Last
	}
}

func othersWrote(batches []lab.Batch, producer int64) bool {
	for _, b := range batches {
		if b.ProducerID != producer && !b.Control {
			return true
		}
	}
	return false
}
