package control

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// versions holds, per kind, the newest version that this klink understands, which is
// the one it writes but for topics that keep their offsets (topicVersion).
var versions = map[Kind]int{
	KindLink: 1, KindLinkState: 1, KindTopic: 2, KindEpoch: 1, KindState: 1, KindWorker: 1, KindCounters: 1, KindPad: 1, KindLedger: 1,
	KindCommand: 1, KindAck: 1, KindCut: 1, KindGroup: 1, KindAdopt: 1, KindAudit: 1, KindSight: 1,
}

// baseVersion is the newest version of an unknown kind that may be ignored.
const baseVersion = 1

func known(k Kind) bool { _, ok := versions[k]; return ok }

// LinkRecord is a link as it was last applied.
type LinkRecord struct {
	Link            string
	Mode            string
	SourceClusterID string
	TargetClusterID string
	// KlinkVersion is the version of the program that applied it.
	KlinkVersion string
	AppliedAt    time.Time
	// Definition is the link as its file had it, with all defaults, as YAML and
	// without secrets: enough to write the file again. "" where an earlier klink
	// applied it.
	Definition string
}

// WorkerRecord names the process of a link that started last. Of two processes
// on one link it alone may append where the target cannot tell them apart.
type WorkerRecord struct {
	Link string
	// Worker is unique to one run of one process.
	Worker string
	At     time.Time
	// Replaced is who was on record before it in the order of the log, "" for nobody:
	// of two that start at once neither may have seen the other. It is not stored.
	Replaced string
}

// LinkStateRecord is the last reported state of a link as a whole.
type LinkStateRecord struct {
	Link   string
	Mode   string
	State  state.State
	Reason state.Reason
	Detail string
	AsOf   time.Time
}

// TopicRecord ties a source topic to the target topic that mirrors it.
type TopicRecord struct {
	Link        string
	SourceTopic string
	SourceID    feed.TopicID
	TargetTopic string
	// TargetID is zero from the claim of the name until the topic was made.
	TargetID feed.TopicID
	// Partitions is the partition count that both sides had last.
	Partitions int32
	// Generation enters the producer ids: a target made anew gets the next one.
	Generation int32
	// Compacted is true once the source's cleanup.policy was seen to include
	// compact; the holes that this may have made stay when the policy changes.
	Compacted bool
	// SourceConfigs are the source's own values of the settings that are forced
	// on the target while it mirrors, as last seen: they come into force on the
	// target at promotion, when the source may be gone.
	SourceConfigs Configs
	// Mode is how the topic is mirrored, "" where its link's mode decides. An older
	// klink refuses a record of checkpoint mode: it would take the copies for another
	// history.
	Mode TopicMode
	// Why tells, of a topic in checkpoint mode whose link is in mirror mode, why its
	// offsets cannot be kept.
	Why string
	// Origins are the clusters that the source topic's records came through before they
	// were on the source, the nearest first, by the source's own record.
	Origins Clusters
}

// TopicMode is how one topic is mirrored, as it was decided before anything was.
type TopicMode string

// The modes that are decided for a topic.
const (
	ModeMirror     TopicMode = "mirror"
	ModeCheckpoint TopicMode = "checkpoint"
)

// Epoch says that the source's batches from First on were written under leader
// epoch Epoch, until the next Epoch begins.
type Epoch struct {
	Epoch int32
	First int64
}

// EpochRecord is one step of a source partition's lineage.
type EpochRecord struct {
	Link string
	// Topic is the source topic, SourceID the incarnation it belongs to.
	Topic     string
	SourceID  feed.TopicID
	Partition int32
	Epoch
}

// StateRecord is the last reported state of one topic. Hints are not stored:
// they follow from the reasons.
type StateRecord struct {
	Link  string
	Topic state.Topic
	AsOf  time.Time
}

type envelope struct {
	Version int `json:"version"`
}

type linkValue struct {
	Version       int       `json:"version"`
	Mode          string    `json:"mode"`
	SourceCluster string    `json:"source_cluster_id"`
	TargetCluster string    `json:"target_cluster_id"`
	Klink         string    `json:"klink"`
	AppliedAt     time.Time `json:"applied_at"`
	Definition    string    `json:"definition,omitempty"`
}

type workerValue struct {
	Version int       `json:"version"`
	Worker  string    `json:"worker"`
	At      time.Time `json:"at"`
}

func encodeWorker(r WorkerRecord) (Key, any) {
	return Key{Kind: KindWorker, Link: r.Link}, workerValue{Version: versions[KindWorker], Worker: r.Worker, At: r.At.UTC()}
}

func (v workerValue) record(k Key) (WorkerRecord, error) {
	return WorkerRecord{Link: k.Link, Worker: v.Worker, At: v.At}, nil
}

type linkStateValue struct {
	Version int       `json:"version"`
	Mode    string    `json:"mode"`
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	AsOf    time.Time `json:"as_of"`
}

type topicValue struct {
	Version     int    `json:"version"`
	SourceID    string `json:"source_id"`
	TargetTopic string `json:"target_topic"`
	TargetID    string `json:"target_id"`
	Partitions  int32  `json:"partitions"`
	Generation  int32  `json:"generation"`
	Compacted   bool   `json:"compacted,omitempty"`
	// SourceConfigs are absent where they were never seen.
	SourceConfigs map[string]Config `json:"source_configs,omitempty"`
	Mode          TopicMode         `json:"mode,omitempty"`
	Why           string            `json:"why,omitempty"`
	Origins       []string          `json:"origins,omitempty"`
	// Since is the log offset of the record's first writing (C3); absent in
	// that first one, whose writer could not know it yet.
	Since *int64 `json:"since,omitempty"`
}

type epochValue struct {
	Version int   `json:"version"`
	First   int64 `json:"first"`
}

func encodeLink(r LinkRecord) (Key, any) {
	return Key{Kind: KindLink, Link: r.Link}, linkValue{Version: versions[KindLink], Mode: r.Mode,
		SourceCluster: r.SourceClusterID, TargetCluster: r.TargetClusterID,
		Klink: r.KlinkVersion, AppliedAt: r.AppliedAt.UTC(), Definition: r.Definition}
}

func (v linkValue) record(k Key) (LinkRecord, error) {
	return LinkRecord{Link: k.Link, Mode: v.Mode, SourceClusterID: v.SourceCluster,
		TargetClusterID: v.TargetCluster, KlinkVersion: v.Klink, AppliedAt: v.AppliedAt, Definition: v.Definition}, nil
}

func encodeLinkState(r LinkStateRecord) (Key, any) {
	return Key{Kind: KindLinkState, Link: r.Link}, linkStateValue{Version: versions[KindLinkState],
		Mode: r.Mode, State: string(r.State), Reason: string(r.Reason), Detail: r.Detail, AsOf: r.AsOf.UTC()}
}

func (v linkStateValue) record(k Key) (LinkStateRecord, error) {
	return LinkStateRecord{Link: k.Link, Mode: v.Mode, State: state.State(v.State),
		Reason: state.Reason(v.Reason), Detail: v.Detail, AsOf: v.AsOf}, nil
}

// topicVersion is 2 where an older klink would do wrong.
func topicVersion(m TopicMode) int {
	if m == ModeCheckpoint {
		return 2
	}
	return 1
}

func encodeTopic(r TopicRecord, since *int64) (Key, any) {
	return Key{Kind: KindTopic, Link: r.Link, Topic: r.SourceTopic}, topicValue{Version: topicVersion(r.Mode),
		SourceID: encodeID(r.SourceID), TargetTopic: r.TargetTopic, TargetID: encodeID(r.TargetID),
		Partitions: r.Partitions, Generation: r.Generation, Compacted: r.Compacted,
		SourceConfigs: r.SourceConfigs.All(), Mode: r.Mode, Why: r.Why, Origins: r.Origins.All(), Since: since}
}

func (v topicValue) record(k Key) (TopicRecord, error) {
	r := TopicRecord{Link: k.Link, SourceTopic: k.Topic, TargetTopic: v.TargetTopic,
		Partitions: v.Partitions, Generation: v.Generation, Compacted: v.Compacted,
		SourceConfigs: NewConfigs(v.SourceConfigs), Mode: v.Mode, Why: v.Why, Origins: NewClusters(v.Origins...)}
	switch {
	case v.TargetTopic == "":
		return r, errors.New("topic record without a target topic")
	case v.Mode != "" && v.Mode != ModeMirror && v.Mode != ModeCheckpoint:
		return r, fmt.Errorf("topic record of mode %q", v.Mode)
	}
	var err error
	if r.SourceID, err = decodeID(v.SourceID); err != nil {
		return r, err
	}
	r.TargetID, err = decodeID(v.TargetID)
	return r, err
}

func encodeEpoch(r EpochRecord) (Key, any) {
	return Key{Kind: KindEpoch, Link: r.Link, Topic: r.Topic, SourceID: encodeID(r.SourceID),
		Partition: r.Partition, Epoch: r.Epoch.Epoch}, epochValue{Version: versions[KindEpoch], First: r.First}
}

func (v epochValue) record(k Key) (EpochRecord, error) {
	r := EpochRecord{Link: k.Link, Topic: k.Topic, Partition: k.Partition,
		Epoch: Epoch{Epoch: k.Epoch, First: v.First}}
	if v.First < 0 {
		return r, fmt.Errorf("epoch %d begins at %d", k.Epoch, v.First)
	}
	var err error
	r.SourceID, err = decodeID(k.SourceID)
	return r, err
}

// encodeID writes the zero id, "this cluster has none", as an empty string.
func encodeID(id feed.TopicID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func decodeID(s string) (feed.TopicID, error) {
	var id feed.TopicID
	if s == "" {
		return id, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("topic id %q is not 16 bytes in hexadecimal", s)
	}
	copy(id[:], b)
	return id, nil
}

// decodeValue checks the version first, so that a newer record is called newer
// and not malformed (C4), and then decodes the value of a known kind. For an
// unknown kind it returns nil.
func decodeValue(k Key, b []byte) (any, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("decode value: %w", err)
	}
	newest := baseVersion
	if v, ok := versions[k.Kind]; ok {
		newest = v
	}
	if e.Version > newest {
		return nil, &NewerError{Kind: k.Kind, Key: k.String(), Version: e.Version, Known: newest}
	}
	if e.Version < 1 {
		return nil, fmt.Errorf("decode value: version %d", e.Version)
	}
	return decodeKind(k, b)
}

func decodeKind(k Key, b []byte) (any, error) {
	switch k.Kind {
	case KindLink:
		return decodeTo(k, b, linkValue.record)
	case KindLinkState:
		return decodeTo(k, b, linkStateValue.record)
	case KindTopic:
		return decodeAs[topicValue](b) // the view needs Since beside the record
	case KindEpoch:
		return decodeTo(k, b, epochValue.record)
	case KindState:
		return decodeAs[stateValue](b)
	case KindWorker:
		return decodeTo(k, b, workerValue.record)
	case KindCounters:
		return decodeTo(k, b, countersValue.block)
	case KindPad:
		return decodeTo(k, b, padValue.record)
	case KindLedger:
		return decodeTo(k, b, ledgerValue.record)
	case KindCommand:
		return decodeTo(k, b, commandValue.command)
	case KindAck:
		return decodeTo(k, b, ackValue.record)
	case KindCut:
		return decodeTo(k, b, cutValue.record)
	case KindGroup:
		return decodeTo(k, b, groupValue.part)
	case KindAdopt:
		return decodeTo(k, b, adoptValue.record)
	case KindAudit:
		return decodeTo(k, b, auditValue.record)
	case KindSight:
		return decodeTo(k, b, sightValue.record)
	default:
		return nil, nil
	}
}

// decodeTo decodes a value and makes of it and its key what the view keeps.
func decodeTo[V, R any](k Key, b []byte, record func(V, Key) (R, error)) (any, error) {
	v, err := decodeAs[V](b)
	if err != nil {
		return nil, err
	}
	return record(v, k)
}

func decodeAs[T any](b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("decode value: %w", err)
	}
	return v, nil
}
