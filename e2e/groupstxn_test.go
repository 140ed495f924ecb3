package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"klink/cmd/lab"
)

// transactions is by which protocol a producer commits offsets in transactions.
type transactions int

const (
	// beforeKIP890: a group is added to a transaction by a request of its own.
	beforeKIP890 transactions = iota
	// sinceKIP890: the first commit adds it, and each end raises the epoch.
	sinceKIP890
)

// txnCommits commits offsets in transactions, one step at a time, so that a test
// can leave one open. It sends what a transactional producer sends.
type txnCommits struct {
	t     testing.TB
	kind  transactions
	cl    *kgo.Client
	id    string
	pid   int64
	epoch int16
}

func newTxnCommits(t testing.TB, c lab.Cluster, id string, kind transactions) *txnCommits {
	t.Helper()
	opts := c.AdminOpts()
	if kind == beforeKIP890 {
		opts = append(opts, kgo.MaxVersions(kversion.V3_8_0()))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	x := &txnCommits{t: t, kind: kind, cl: cl, id: id}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &id
	req.TransactionTimeoutMillis = int32((10 * time.Minute).Milliseconds())
	x.settle("a producer id", func() error {
		resp, err := req.RequestWith(within(t, patience), cl)
		if err != nil {
			return err
		}
		x.pid, x.epoch = resp.ProducerID, resp.ProducerEpoch
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return x
}

// settle repeats a request while a coordinator is away or not ready for it.
func (x *txnCommits) settle(what string, do func() error) {
	x.t.Helper()
	eventually(x.t, patience, what, func() bool {
		err := do()
		var refused *kerr.Error
		if errors.As(err, &refused) && !refused.Retriable && refused != kerr.ConcurrentTransactions {
			x.t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// commit is a commit within the transaction, which it begins where none is open.
func (x *txnCommits) commit(group string, o kadm.Offset) {
	x.t.Helper()
	if x.kind == beforeKIP890 {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = x.id, x.pid, x.epoch, group
		x.settle("a group in a transaction", func() error {
			resp, err := add.RequestWith(within(x.t, patience), x.cl)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(resp.ErrorCode)
		})
	}
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = o.Partition, o.At, &o.Metadata
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = o.Topic
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = x.id, group, x.pid, x.epoch
	req.Topics = append(req.Topics, topic)
	x.settle("a commit in a transaction", func() error {
		resp, err := req.RequestWith(within(x.t, patience), x.cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
}

// end commits or aborts.
func (x *txnCommits) end(how kgo.TransactionEndTry) {
	x.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = x.id, x.pid, x.epoch, bool(how)
	x.settle("the end of a transaction", func() error {
		resp, err := req.RequestWith(within(x.t, patience), x.cl)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		if x.kind == sinceKIP890 {
			x.pid, x.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return nil
	})
}
