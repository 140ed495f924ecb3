package contrast

import (
	"fmt"
	"math/rand/v2"

	"klink/cmd/lab"
)

// ticksPerSecond is how often the script goes on.
const ticksPerSecond = 10

// part is a topic of the load.
type part struct {
	name       string
	partitions int32
	codec      string
	percent    int64 // of all records
	// every is the tick, counted in ticks, that has all records since the last one.
	every int64
	// transactional records come in transactions, of which some are aborted.
	transactional bool
	// keys is how many keys a compacted topic has; 0 is a topic that is not.
	keys int
}

// parts are the load, each by the name it has behind the run's prefix.
var parts = []part{
	{name: "steady", partitions: 4, codec: "snappy", percent: 50, every: 1},
	{name: "bursts", partitions: 2, codec: "zstd", percent: 25, every: 2 * ticksPerSecond},
	{name: "transactions", partitions: 2, codec: "none", percent: 15, every: 1, transactional: true},
	{name: "compacted", partitions: 2, codec: "snappy", percent: 10, every: 1, keys: 40},
}

const (
	mostPerTransaction = 20
	abortOneIn         = 5
)

// message is a record to be sent. Its serial counts the records of its partition.
type message struct {
	at     lab.Partition // by the part's name
	serial int64
	key    string
	value  []byte
}

// deed is what is sent at once: a transaction, or records of no transaction.
type deed struct {
	part     part
	messages []message
	abort    bool
}

// script says what is sent at each tick. It is a pure function of seed and rate
// (X2); ticks have to be asked for in order.
type script struct {
	rate    int64 // records per second
	rng     []*rand.Rand
	serials map[lab.Partition]int64
	ticks   int64
}

func newScript(seed uint64, recordsPerSecond int) *script {
	s := &script{rate: int64(recordsPerSecond), serials: map[lab.Partition]int64{}}
	for i := range parts {
		s.rng = append(s.rng, rand.New(rand.NewPCG(seed, uint64(i))))
	}
	return s
}

// next gives the deeds of the next tick.
func (s *script) next() (all []deed) {
	s.ticks++
	for i, p := range parts {
		all = append(all, s.deeds(p, s.rng[i])...)
	}
	return all
}

// deeds gives those of one part.
func (s *script) deeds(p part, rng *rand.Rand) (all []deed) {
	if s.ticks%p.every != 0 {
		return nil
	}
	due := s.due(p, s.ticks) - s.due(p, s.ticks-p.every)
	for due > 0 {
		d := deed{part: p}
		count := due
		if p.transactional {
			count = min(due, 1+rng.Int64N(mostPerTransaction))
			d.abort = rng.IntN(abortOneIn) == 0
		}
		for n := range count {
			d.messages = append(d.messages, s.message(p, int32((due-n)%int64(p.partitions)), rng))
		}
		all, due = append(all, d), due-count
	}
	return all
}

// due is how many records a part has had after so many ticks.
func (s *script) due(p part, ticks int64) int64 {
	return s.rate * p.percent * ticks / (100 * ticksPerSecond)
}

func (s *script) message(p part, partition int32, rng *rand.Rand) message {
	m := message{at: lab.Partition{Topic: p.name, Number: partition}}
	m.serial = s.serials[m.at]
	s.serials[m.at]++
	m.key = fmt.Sprintf("key-%d", rng.IntN(max(p.keys, 1000)))
	if p.keys > 0 {
		m.key = fmt.Sprintf("key-%d", rng.IntN(p.keys))
	}
	if m.serial == 0 {
		m.key = "first" // and only: the cleaner leaves it, and the log begins where it began
	}
	m.value = wording(rng, 50+rng.IntN(400))
	return m
}

// wording compresses about as well as JSON does.
func wording(rng *rand.Rand, bytes int) []byte {
	words := []string{`"customer":`, `"amount":`, `"note":`, "true,", "null,", "Dresden ", "Leipzig "}
	b := make([]byte, 0, bytes+16)
	for len(b) < bytes {
		b = append(b, words[rng.IntN(len(words))]...)
		b = fmt.Appendf(b, "%d,", rng.IntN(10_000))
	}
	return b[:bytes]
}

// bulkPart is what lies at the source before the mirror begins, for its speed.
var bulkPart = part{name: "bulk", partitions: 4, codec: "lz4"}

// bulkRecord is the size of a value of it.
const bulkRecord = 1024
