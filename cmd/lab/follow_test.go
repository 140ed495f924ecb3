package lab_test

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
	"klink/cmd/lab/readers"
)

func TestMain(m *testing.M) {
	if readers.Main() {
		return
	}
	os.Exit(m.Run())
}

// track is what a follower of one partition has told.
type track struct {
	mu          sync.Mutex // guards all below
	first, next int64
	committed   int64
	count       int64
}

func (s *track) read() track {
	s.mu.Lock()
	defer s.mu.Unlock()
	return track{first: s.first, next: s.next, committed: s.committed, count: s.count}
}

// Each maker's consumer goes on from its group's commit, tells all that it is
// given, and ends where there is no commit.
func TestFollowersGoOnFromTheirCommits(t *testing.T) {
	k := labtest.StartKafka(t, lab.KafkaOptions{})
	labtest.CreateTopics(t, k, lab.TopicSpec{Name: "followed", Configs: lab.KeepEverything()})
	write := func() int64 {
		return labtest.Produce(t, k, lab.LoadOptions{Topics: []string{"followed"}, Seed: 1, MaxBatch: 50, Total: 500}).Ends[lab.Partition{Topic: "followed"}]
	}
	end := write()
	client, err := kgo.NewClient(k.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var all sync.WaitGroup
	for _, maker := range readers.Makers {
		all.Go(func() {
			var seed kadm.Offsets
			seed.AddOffset("followed", 0, 5, -1)
			if _, err := kadm.NewClient(client).CommitOffsets(t.Context(), string(maker), seed); err != nil {
				t.Error(err)
				return
			}
			f, s := follow(t, k, maker, string(maker))
			awaitTold(t, f, "commits of all", func() bool { return s.read().committed == end })
			if got := s.read(); got.first != 5 || got.next != end || got.count != end-5 {
				t.Errorf("%s was given %d records from %d to %d, want from 5 to %d", maker, got.count, got.first, got.next, end)
			}
			if err := f.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	more := write()
	for _, maker := range readers.Makers {
		all.Go(func() {
			f, s := follow(t, k, maker, string(maker))
			awaitTold(t, f, "the new records", func() bool { return s.read().next == more })
			if err := f.Kill(); err != nil {
				t.Error(err)
			}
			if got := s.read(); got.first != end || got.count != more-end {
				t.Errorf("%s was given %d records from %d on, want those from %d to %d", maker, got.count, got.first, end, more)
			}
			// Nobody has ever committed anything for this group.
			f, s = follow(t, k, maker, "none-"+string(maker))
			awaitTold(t, f, "the end", func() bool {
				select {
				case <-f.Done():
					return true
				default:
					return false
				}
			})
			if got := s.read(); !errors.Is(f.Err(), readers.ErrReset) || got.count > 0 {
				t.Errorf("%s without a commit: %v after %d records\n%s", maker, f.Err(), got.count, f.Log())
			}
		})
	}
	all.Wait()
}

func follow(t *testing.T, k *lab.Kafka, maker readers.Maker, group string) (*readers.Follower, *track) {
	s := &track{first: -1}
	f, err := readers.Follow(t.Context(), readers.FollowOptions{Maker: maker, Bootstrap: k.Bootstrap(), Group: group, Topics: []string{"followed"},
		Delivered: func(r readers.Run) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.first < 0 {
				s.first = r.First
			}
			s.next, s.count = r.Next, s.count+r.Next-r.First
		},
		Committed: func(c readers.Commit) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.committed = c.Offset
		}})
	if err != nil {
		t.Errorf("%s: %v", maker, err)
		t.FailNow()
	}
	t.Cleanup(func() { _ = f.Kill() })
	return f, s
}

func awaitTold(t *testing.T, f *readers.Follower, what string, is func() bool) {
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if err := f.Err(); err != nil && what != "the end" || time.Now().After(deadline) {
			t.Errorf("waited in vain for %s: %v\n%s", what, err, f.Log())
			return
		}
	}
}
