package checkpoints

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/ownlog"
	"klink/linker/remote"
	"klink/linker/state"
)

// line is one topic that is written, and read back where what is in it counts. It is
// one goroutine's.
type line struct {
	topic string
	cl    *kgo.Client
	adm   *kadm.Client
	// ready: the topic was seen to be as it has to be.
	ready bool

	// log is nil before the topic was read, and take what is read; nil is that it is
	// not read.
	log  *ownlog.Log
	take func(*kgo.Record)
	// forget is called where another topic stands in the place of the one that was read.
	forget func()
	// mine are the offsets of what was written since the topic was read last, and
	// whole tells that it was read to its end once.
	mine  map[int64]bool
	whole bool
	// strangers counts records of others since then (P5).
	strangers int64
}

func newLine(cl *kgo.Client, topic string) *line {
	return &line{topic: topic, cl: cl, adm: kadm.NewClient(cl), mine: make(map[int64]bool)}
}

// open makes the topic, or looks at it, where that was not done yet.
func (l *line) open(ctx context.Context) error {
	if l.ready {
		return nil
	}
	// A client that saw an earlier topic of this name would refuse this one.
	l.cl.PurgeTopicsFromProducing(l.topic)
	err := ensure(ctx, l.cl, l.topic)
	l.ready = err == nil
	return err
}

// catchUp reads what is in the topic and was not read yet.
func (l *line) catchUp(ctx context.Context) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	if l.log == nil {
		log := ownlog.New(l.cl, l.topic)
		if err := log.Locate(ctx); err != nil {
			log.Close()
			return err
		}
		l.log, l.whole = log, false
		l.forget()
		clear(l.mine)
	}
	err := l.log.ReadToEnd(ctx, func(records []*kgo.Record) error {
		for _, r := range records {
			if l.whole && !l.mine[r.Offset] {
				l.strangers++
			}
			l.take(r)
		}
		return nil
	})
	if err != nil {
		l.failed(err)
		return err
	}
	clear(l.mine)
	l.whole = true
	return nil
}

// write returns once the target has acknowledged the records. What was acknowledged
// before an error comes beside it.
func (l *line) write(ctx context.Context, records []*kgo.Record) (written []*kgo.Record, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	for _, r := range records {
		r.Topic, r.Partition = l.topic, 0
	}
	results := l.cl.ProduceSync(ctx, records...)
	for _, r := range results {
		if r.Err == nil {
			written = append(written, r.Record)
			if l.log != nil {
				l.mine[r.Record.Offset] = true
			}
		}
	}
	err = remote.Classify("write topic "+l.topic, remote.Right("Write", "topic", l.topic), results.FirstErr())
	if err != nil {
		l.failed(err)
	}
	return written, err
}

// failed has the topic looked at again, and read again where it is another one.
func (l *line) failed(err error) {
	l.ready = false
	var f *remote.Fault
	if errors.Is(err, ownlog.ErrLost) || errors.As(err, &f) && f.Reason == state.TopicMissing {
		l.close()
	}
}

func (l *line) close() {
	if l.log != nil {
		l.log.Close()
		l.log = nil
	}
}

// record is one for partition 0.
func record(key, value []byte, at time.Time) *kgo.Record {
	return &kgo.Record{Key: key, Value: value, Timestamp: at}
}
