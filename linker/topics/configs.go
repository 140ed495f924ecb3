package topics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Setting is one config of a topic as DescribeConfigs (API 32) tells it.
type Setting struct {
	Value string
	// Explicit is true where it is set on the topic itself, false where it
	// comes from the broker or is Kafka's default.
	Explicit bool
}

// Settings are the effective configs of one topic by name; nil is unknown.
type Settings map[string]Setting

// KeyValue is one config to set.
type KeyValue struct{ Key, Value string }

// Dropped is one config of the source that the target does not get.
type Dropped struct{ Key, Value, Why string }

const (
	keyCleanup    = "cleanup.policy"
	keyCompress   = "compression.type"
	keyTimestamps = "message.timestamp.type"
	keyBefore     = "message.timestamp.before.max.ms"
	keyAfter      = "message.timestamp.after.max.ms"
	keyDifference = "message.timestamp.difference.max.ms"
	keyMaxMessage = "max.message.bytes"
	keyRetainMs   = "retention.ms"
	keyRetainSize = "retention.bytes"
	keyInsync     = "min.insync.replicas"
	keyTombstones = "delete.retention.ms"
	keyMinLag     = "min.compaction.lag.ms"
	keyMaxLag     = "max.compaction.lag.ms"
)

// leastMessageBytes is Kafka's default for max.message.bytes. A source may have
// less; the target gets this much all the same, because what klink re-encodes
// or merges may be larger than the batches it came in.
const leastMessageBytes = 1048588

var unlimited = strconv.FormatInt(math.MaxInt64, 10)

// copied are carried over where the source sets them on the topic itself: a
// default of one cluster's brokers is no wish of the topic's owner.
var copied = []string{
	keyTombstones, "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes",
	keyMaxLag, "min.cleanable.dirty.ratio", keyMinLag, keyInsync, "preallocate",
	"segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
}

// cleaning are carried over by their effective values, wherever they come from,
// where the source's cleaner removes records by key: the target's cleaner works
// on its own and has to leave tombstones as long as the source's.
var cleaning = []string{keyTombstones, keyMinLag, keyMaxLag}

// forced has no values of its own; what is forced, and why:
//
//	compression.type        the broker must keep batches as they come
//	message.timestamp.type  the broker must not stamp its own time
//	…timestamp….max.ms      old and future records are as good as others
//	max.message.bytes       what the source took must fit
//	retention.*             klink follows the source's log start itself; or,
//	                        with CopyRetention, the target deletes as the source
var forced = []string{keyCompress, keyTimestamps, keyBefore, keyAfter, keyDifference, keyMaxMessage, keyRetainMs, keyRetainSize}

const (
	whyBrokers  = "it names brokers of the source"
	whyTiered   = "tiered storage is the target cluster's own matter"
	whyObsolete = "brokers do not use it any more"
	whyCodec    = "the target's brokers do not compress mirrored records"
)

// neverCopied are known and left alone, with the reason that is shown.
var neverCopied = map[string]string{
	"unclean.leader.election.enable":          "whether the target may lose records is the target's own matter",
	"leader.replication.throttled.replicas":   whyBrokers,
	"follower.replication.throttled.replicas": whyBrokers,
	"remote.storage.enable":                   whyTiered,
	"remote.log.copy.disable":                 whyTiered,
	"remote.log.delete.on.disable":            whyTiered,
	"local.retention.ms":                      whyTiered,
	"local.retention.bytes":                   whyTiered,
	"message.format.version":                  whyObsolete,
	"message.downconversion.enable":           whyObsolete,
	"compression.gzip.level":                  whyCodec,
	"compression.lz4.level":                   whyCodec,
	"compression.zstd.level":                  whyCodec,
}

// ConfigInput is all that the configs of a mirror topic follow from.
type ConfigInput struct {
	// Source is nil where klink may not see the source's configs.
	Source Settings
	// Known are the topic configs that the target's brokers have; nil where
	// they would not tell.
	Known map[string]bool
	// Overrides come from the link's configuration.
	Overrides map[string]string
	// Replicas is the target's replication factor.
	Replicas int
	// CopyRetention has the target delete by itself, by the source's settings;
	// else it deletes nothing by age or size.
	CopyRetention bool
}

// ConfigPlan is what a mirror topic is created with.
type ConfigPlan struct {
	// Set is sorted by key.
	Set []KeyValue
	// Dropped are sorted by key.
	Dropped []Dropped
	// Notes are sentences about what could not be known.
	Notes []string
}

// ValidateOverrides refuses overrides of what mirroring itself needs, and
// returns the first such key in order.
func ValidateOverrides(overrides map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(overrides)) {
		if k == keyCleanup {
			return &RuleError{Field: "configs." + k, Value: overrides[k], Err: fmt.Errorf("cannot be set: the target keeps what the source keeps")}
		}
		if k == keyMaxMessage {
			if n, err := strconv.ParseInt(overrides[k], 10, 32); err != nil || n < 0 {
				return &RuleError{Field: "configs." + k, Value: overrides[k], Err: fmt.Errorf("is no number of bytes")}
			}
			continue
		}
		if slices.Contains(forced, k) {
			return &RuleError{Field: "configs." + k, Value: overrides[k], Err: fmt.Errorf("cannot be set: klink sets it itself while it mirrors")}
		}
	}
	return nil
}

// PlanConfigs decides what a mirror topic is created with.
func PlanConfigs(in ConfigInput) ConfigPlan {
	p := &configPlanner{in: in, set: make(map[string]string)}
	if in.Source == nil {
		p.out.Notes = append(p.out.Notes, "the source's configs cannot be read (right: DescribeConfigs on the topic), so the target topic gets what mirroring needs and nothing else; its cleanup.policy and max.message.bytes may differ")
	} else {
		p.carryOver()
	}
	p.force()
	for k, v := range in.Overrides {
		if k != keyMaxMessage {
			p.set[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.set)) {
		p.out.Set = append(p.out.Set, KeyValue{k, p.set[k]})
	}
	return p.out
}

type configPlanner struct {
	in  ConfigInput
	set map[string]string
	out ConfigPlan
}

func (p *configPlanner) knows(key string) bool { return p.in.Known == nil || p.in.Known[key] }

// carryOver takes the source's settings one by one, and says of each that is
// set on the topic and not taken why not.
func (p *configPlanner) carryOver() {
	// By its effective value, wherever it comes from: it decides which records
	// the log keeps, so it is part of what is mirrored.
	if c, ok := p.in.Source[keyCleanup]; ok {
		p.set[keyCleanup] = c.Value
		if compacts(c.Value) {
			p.carryCleaning()
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.in.Source)) {
		s := p.in.Source[k]
		if !s.Explicit || k == keyCleanup || slices.Contains(forced, k) {
			continue
		}
		if _, overridden := p.in.Overrides[k]; overridden {
			continue
		}
		if why := p.refusal(k, s.Value); why != "" {
			p.out.Dropped = append(p.out.Dropped, Dropped{k, s.Value, why})
			continue
		}
		p.set[k] = s.Value
	}
}

func (p *configPlanner) carryCleaning() {
	for _, k := range cleaning {
		if s, ok := p.in.Source[k]; ok && p.knows(k) {
			p.set[k] = s.Value
		}
	}
}

func (p *configPlanner) refusal(key, value string) string {
	if why, ok := neverCopied[key]; ok {
		return why
	}
	if !slices.Contains(copied, key) {
		return "klink does not know it"
	}
	if !p.knows(key) {
		return "the target's brokers do not know it"
	}
	if key == keyInsync {
		if n, err := strconv.Atoi(value); err == nil && n > p.in.Replicas {
			return fmt.Sprintf("the target topic has %d replicas, so it could never be written to", p.in.Replicas)
		}
	}
	return ""
}

func (p *configPlanner) force() {
	p.set[keyCompress] = "producer"
	p.set[keyTimestamps] = "CreateTime"
	p.forceRetention()
	for _, k := range []string{keyBefore, keyAfter} { // KIP-937, since 3.6
		if p.knows(k) {
			p.set[k] = unlimited
		}
	}
	// Until 3.9; a limit set here still counts there beside the two above. Only
	// where the broker says that it has it, since 4.0 refuses the name.
	if p.in.Known[keyDifference] {
		p.set[keyDifference] = unlimited
	}
	bytes := int64(leastMessageBytes)
	if n, ok := number(p.in.Source[keyMaxMessage].Value); ok {
		bytes = max(bytes, n)
	}
	if n, ok := number(p.in.Overrides[keyMaxMessage]); ok {
		bytes = max(bytes, n)
	}
	p.set[keyMaxMessage] = strconv.FormatInt(bytes, 10)
}

// forceRetention turns the target's retention off or makes it the source's, by
// its effective value. One that is not known deletes nothing.
func (p *configPlanner) forceRetention() {
	for _, k := range []string{keyRetainMs, keyRetainSize} {
		p.set[k] = "-1"
		if s, ok := p.in.Source[k]; ok && p.in.CopyRetention {
			p.set[k] = s.Value
		}
	}
	if p.in.CopyRetention && p.in.Source == nil {
		p.out.Notes = append(p.out.Notes, "the source's retention cannot be read, so the target topic deletes nothing by age or size")
	}
}

func number(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// vital are the settings without which a topic is not created: records would be
// changed, refused or deleted at once. Any other may be left out where the
// target does not take it.
func vital(key string) bool {
	switch key {
	case keyCleanup, keyCompress, keyTimestamps, keyMaxMessage, keyRetainMs, keyRetainSize:
		return true
	default:
		return false
	}
}

// Correction is one forced setting that an existing target topic lacks.
type Correction struct {
	Key, Have, Want string
	// Critical ones stand in the way of mirroring: records would be changed or
	// refused. Without the others the topic is mirrored with a warning.
	Critical bool
}

// Corrections compares a target topic with what is forced (T5).
func Corrections(want ConfigPlan, have Settings) []Correction {
	var out []Correction
	for _, kv := range want.Set {
		if !slices.Contains(forced, kv.Key) {
			continue
		}
		cur, ok := have[kv.Key]
		if !ok {
			continue // this broker does not have it
		}
		c := Correction{Key: kv.Key, Have: cur.Value, Want: kv.Value}
		switch kv.Key {
		case keyMaxMessage:
			// More is fine. Less is not critical: batches are split, and a partition
			// that meets a record above it halts by itself.
			if below(kv.Value, cur.Value) {
				continue
			}
		case keyCompress, keyTimestamps:
			c.Critical = true
		}
		if cur.Value != kv.Value {
			out = append(out, c)
		}
	}
	return out
}

// compacts reports whether a cleanup.policy removes records by their keys.
func compacts(policy string) bool { return strings.Contains(policy, "compact") }

// deletes reports whether a cleanup.policy removes old records.
func deletes(policy string) bool { return strings.Contains(policy, "delete") }

// samePolicy compares values of cleanup.policy, a list whose order means nothing.
func samePolicy(a, b string) bool {
	list := func(s string) []string {
		words := strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
		slices.Sort(words)
		return slices.Compact(words)
	}
	return slices.Equal(list(a), list(b))
}

// below reports whether both are numbers and a is the smaller.
func below(a, b string) bool {
	x, ok1 := number(a)
	y, ok2 := number(b)
	return ok1 && ok2 && x < y
}
