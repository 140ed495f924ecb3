package topics

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
	"klink/linker/state"
)

// TestRoomIsTheTightest: of several replicas the one with the least room counts,
// and folders without the partition do not.
func TestRoomIsTheTightest(t *testing.T) {
	answers := map[int32][]kmsg.DescribeLogDirsResponseDir{
		0: {dir("/big", 900, "orders", 0), dir("/other", 1, "invoices", 0)},
		1: {dir("/small", 300, "orders", 0)},
		2: {dir("/silent", -1, "orders", 0), dir("/elsewhere", 2, "orders", 1)},
	}
	target := roomTarget(t, func(node int32, r *kmsg.DescribeLogDirsResponse) { r.Dirs = answers[node] })
	got, err := target.Room(testContext(t), "orders", 0)
	if want := (Room{Broker: 1, Dir: "/small", UsableBytes: 300}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	clear(answers)
	if _, err := target.Room(testContext(t), "orders", 0); !errors.Is(err, ErrRoomUnknown) {
		t.Errorf("nobody tells: %v", err)
	}
	if _, err := target.Room(testContext(t), "orders", 7); err == nil || errors.Is(err, ErrRoomUnknown) {
		t.Errorf("a partition that is not there: %v", err)
	}
}

func TestRoomNeedsARight(t *testing.T) {
	target := roomTarget(t, func(_ int32, r *kmsg.DescribeLogDirsResponse) { r.ErrorCode = kerr.ClusterAuthorizationFailed.Code })
	_, err := target.Room(testContext(t), "orders", 0)
	if remote.ReasonOf(err) != state.NoPermission {
		t.Errorf("%v", err)
	}
}

func roomTarget(t testing.TB, answer func(node int32, r *kmsg.DescribeLogDirsResponse)) *Target {
	t.Helper()
	c := newCluster(t, kfake.NumBrokers(3))
	c.ControlKey(int16(kmsg.DescribeLogDirs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
		answer(c.CurrentNode(), resp)
		return resp, nil, true
	})
	cl := newClient(t, c)
	_, err := kadm.NewClient(cl).CreateTopic(testContext(t), 1, 3, nil, "orders")
	must(t, err)
	return NewTarget(cl, controlTopic)
}

func dir(path string, usable int64, topic string, partition int32) kmsg.DescribeLogDirsResponseDir {
	d := kmsg.NewDescribeLogDirsResponseDir()
	d.Dir, d.UsableBytes = path, usable
	dt := kmsg.NewDescribeLogDirsResponseDirTopic()
	dt.Topic = topic
	dp := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	dp.Partition = partition
	dt.Partitions = append(dt.Partitions, dp)
	d.Topics = append(d.Topics, dt)
	return d
}
