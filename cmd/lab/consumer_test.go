package lab_test

import (
	"fmt"
	"testing"
	"time"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
)

// awaitDelivered waits until n deliveries have been noted.
func awaitDelivered(t *testing.T, d *lab.Deliveries, n int64) {
	t.Helper()
	await(t, fmt.Sprintf("%d deliveries", n), func() bool { return d.Records() >= n })
}

func TestAGroupGoesOnWhereItCommitted(t *testing.T) {
	src, _ := pair(t, 2)
	load := lab.LoadOptions{Topics: []string{"t"}, Total: 3000, From: at(0), To: at(1e12)}
	first := labtest.Produce(t, src, load)
	var seen lab.Deliveries
	consumer := func(every time.Duration) *lab.Consumer {
		c, err := lab.StartConsumer(src.ClientOpts(), lab.ConsumerOptions{Group: "g", Topics: []string{"t"}, CommitEvery: every}, &seen)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := consumer(time.Hour)
	awaitDelivered(t, &seen, first.Acked)
	if c.First().IsZero() {
		t.Error("no time of the first record")
	}
	c.Crash() // nothing was committed: all of it comes again
	c = consumer(time.Hour)
	awaitDelivered(t, &seen, 2*first.Acked)
	if err := c.Stop(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	var twice int64
	for _, n := range seen.Twice() {
		twice += n
	}
	if twice != first.Acked {
		t.Errorf("%d records read twice, want %d", twice, first.Acked)
	}
	second := labtest.Produce(t, src, load)
	requireLost(t, src, &seen, second.Acked)
	c = consumer(50 * time.Millisecond)
	awaitDelivered(t, &seen, 2*first.Acked+second.Acked)
	if err := c.Stop(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	requireLost(t, src, &seen, 0)
	if n := seen.Records(); n != 2*first.Acked+second.Acked {
		t.Errorf("%d deliveries, want none beyond %d", n, 2*first.Acked+second.Acked)
	}
}

// requireLost checks how many of the topic's records nobody was given.
func requireLost(t *testing.T, c lab.Cluster, seen *lab.Deliveries, want int64) {
	t.Helper()
	var lost int64
	for number := range int32(2) {
		n, first, err := seen.Lost(within(t, 20*time.Second), c, lab.Partition{Topic: "t", Number: number}, lab.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if (n > 0) != (first >= 0) {
			t.Errorf("partition %d: %d lost, the first at %d", number, n, first)
		}
		lost += n
	}
	if lost != want {
		t.Errorf("%d records lost, want %d", lost, want)
	}
}

func TestAConsumerNeedsAGroupAndTopics(t *testing.T) {
	if _, err := lab.StartConsumer(nil, lab.ConsumerOptions{}, new(lab.Deliveries)); err == nil {
		t.Error("a consumer without a group was started")
	}
}
