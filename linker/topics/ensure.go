package topics

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/remote"
	"klink/linker/state"
)

// Outcome is where one topic stands on the target after Ensure.
type Outcome struct {
	SourceTopic, TargetTopic string
	// ID and Partitions are the target topic's, zero while there is none. ID is
	// also zero where the cluster has no topic ids.
	ID         feed.TopicID
	Partitions int32
	Created    bool
	// Grown is true when partitions were added now.
	Grown bool
	// Changed are the settings that were set on an existing topic now.
	Changed []Correction
	// MaxMessageBytes is the topic's max.message.bytes now, 0 where it cannot be
	// read.
	MaxMessageBytes int64
	// CleanupPolicy is the topic's cleanup.policy now, "" where it is not known.
	CleanupPolicy string
	// Unfollowed are settings that the source changed and the target did not get
	// yet (T6): until it has, the record has to keep the source's value of before.
	Unfollowed []string
	// Dropped are settings of the source that the target topic does not have.
	Dropped []Dropped
	// Warnings are sentences about what is not as it should be and does not
	// stand in the way.
	Warnings []string
	// Reason is "" where the topic can be mirrored to; Detail has the numbers
	// and names of the case.
	Reason state.Reason
	Detail string
}

func (o *Outcome) refuse(reason state.Reason, format string, args ...any) {
	o.Reason, o.Detail = reason, fmt.Sprintf(format, args...)
}

// fault takes over the reason of an error.
func (o *Outcome) fault(err error) {
	var f *remote.Fault
	if errors.As(err, &f) {
		o.Reason, o.Detail = f.Reason, f.Error()
		return
	}
	o.Reason, o.Detail = remote.ReasonOf(err), err.Error()
}

// Target brings the target cluster's topics to where the plans want them.
type Target struct {
	cl      *kgo.Client
	control string
}

// NewTarget returns a Target. controlTopic is a topic that exists there and may
// be described: the configs it lists are those that the target's brokers know.
func NewTarget(dst *kgo.Client, controlTopic string) *Target {
	return &Target{cl: dst, control: controlTopic}
}

// work is one plan on its way to its outcome.
type work struct {
	plan    Plan
	configs ConfigPlan
	out     *Outcome
	// left names settings that the target refused and that are left out.
	left map[string]bool
}

// Ensure creates missing topics, adds missing partitions and sets what mirroring
// forces. The outcomes are in the order of the plans. The error is a
// *remote.Fault: the cluster did not answer, and nothing is known of any topic.
// It may be called again at any time, and after any failure: it looks first.
func (t *Target) Ensure(ctx context.Context, plans []Plan) ([]Outcome, error) {
	outcomes := make([]Outcome, len(plans))
	var todo []*work
	for i, p := range plans {
		outcomes[i] = Outcome{SourceTopic: p.Source.Name, TargetTopic: p.Target, Reason: p.Reason, Detail: p.Detail}
		if p.Reason == "" {
			todo = append(todo, &work{plan: p, out: &outcomes[i], left: make(map[string]bool)})
		}
	}
	if len(todo) == 0 {
		return outcomes, nil
	}
	known := t.capabilities(ctx)
	for _, w := range todo {
		w.configs = PlanConfigs(ConfigInput{Source: w.plan.Source.Configs, Known: known,
			Overrides: w.plan.Overrides, Replicas: int(w.plan.Replicas), CopyRetention: w.plan.CopyRetention})
		w.out.Dropped, w.out.Warnings = w.configs.Dropped, w.configs.Notes
	}
	missing, existing, err := t.look(ctx, todo)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		raced, err := t.create(ctx, missing)
		if err != nil {
			return nil, err
		}
		// Somebody was quicker: it is an existing topic like others now.
		unseen, more, err := t.look(ctx, raced)
		if err != nil {
			return nil, err
		}
		for _, w := range unseen {
			w.out.refuse(state.TopicMissing, "somebody else made the topic just now, and the broker that was asked does not know it yet")
		}
		existing = append(existing, more...)
	}
	if err := t.grow(ctx, existing); err != nil {
		return nil, err
	}
	return outcomes, t.correct(ctx, existing)
}

// capabilities asks which topic configs the target's brokers have; nil where
// they do not tell, which is no error.
func (t *Target) capabilities(ctx context.Context) map[string]bool {
	answer, err := describeConfigs(ctx, t.cl, []string{t.control})
	d, ok := answer[t.control]
	if err != nil || !ok || d.err != nil {
		return nil
	}
	known := make(map[string]bool, len(d.settings))
	for k := range d.settings {
		known[k] = true
	}
	return known
}

// look sorts the topics into those that are there and those that are not, and
// gives a reason to those it cannot see.
func (t *Target) look(ctx context.Context, todo []*work) (missing, existing []*work, err error) {
	if len(todo) == 0 {
		return nil, nil, nil
	}
	names := make([]string, 0, len(todo))
	for _, w := range todo {
		names = append(names, w.plan.Target)
	}
	answer, err := metadata(ctx, t.cl, names)
	if err != nil {
		return nil, nil, err
	}
	seen := make(map[string]listedTopic, len(answer.topics))
	for _, l := range answer.topics {
		seen[l.Name] = l
	}
	for _, w := range todo {
		l, ok := seen[w.plan.Target]
		switch {
		case !ok, l.Reason == state.TopicMissing:
			missing = append(missing, w)
		case l.Reason != "":
			w.out.refuse(l.Reason, "%s", l.Detail)
		default:
			w.out.ID, w.out.Partitions = l.ID, int32(len(l.Leaders))
			existing = append(existing, w)
		}
	}
	return missing, existing, nil
}

// create makes the missing topics. It returns those that were there after all.
func (t *Target) create(ctx context.Context, missing []*work) (raced []*work, err error) {
	for try := range createTries {
		var again []*work
		for _, chunk := range chunks(missing) {
			answers, err := t.createTopics(ctx, chunk)
			if err != nil {
				return nil, err
			}
			for _, w := range chunk {
				switch a := answers[w.plan.Target]; {
				case errors.Is(a.err, kerr.TopicAlreadyExists):
					raced = append(raced, w)
				case a.err == nil:
					w.out.ID, w.out.Partitions, w.out.Created = a.id, w.plan.Partitions, true
					w.out.MaxMessageBytes, w.out.CleanupPolicy = w.forcedMessageBytes(), w.value(keyCleanup)
				case w.leaveOut(a.err, try):
					again = append(again, w)
				default:
					w.refuseCreation(a.err)
				}
			}
		}
		if missing = again; len(missing) == 0 {
			break
		}
	}
	for _, w := range missing {
		w.out.refuse(state.TopicRefused, "the target refuses the topic's settings")
	}
	return raced, nil
}

// leaveOut reacts to a refusal of settings by leaving out those the answer
// names; all that are not vital where it names none, or when only one try is
// left. It reports whether there is something new to try.
//
// The names are looked for in the broker's text since the protocol has no other
// place for them; which error it is comes from its code.
func (w *work) leaveOut(err error, try int) bool {
	if !errors.Is(err, kerr.InvalidConfig) && !errors.Is(err, kerr.PolicyViolation) && !errors.Is(err, kerr.InvalidRequest) {
		return false
	}
	named, vitalNamed := w.namedIn(err.Error())
	if vitalNamed {
		return false
	}
	if len(named) == 0 || try >= createTries-2 {
		named = w.optional()
	}
	for _, k := range named {
		w.left[k] = true
		w.out.Dropped = append(w.out.Dropped, Dropped{k, w.value(k), "the target refused it: " + err.Error()})
	}
	return len(named) > 0
}

// namedIn returns the settings that a broker's text names, as whole words:
// segment.ms is not named by a text about local.segment.ms.
func (w *work) namedIn(text string) (optional []string, vitalNamed bool) {
	words := strings.FieldsFunc(text, func(c rune) bool { return !legalRune(c) })
	for _, kv := range w.settings() {
		for _, word := range words {
			if strings.Trim(word, ".") != kv.Key {
				continue
			}
			if w.isVital(kv.Key) {
				return nil, true
			}
			optional = append(optional, kv.Key)
			break
		}
	}
	return optional, false
}

func (w *work) optional() []string {
	var out []string
	for _, kv := range w.settings() {
		if !w.isVital(kv.Key) {
			out = append(out, kv.Key)
		}
	}
	return out
}

// isVital adds what the operator asked for to what mirroring needs: neither is
// ever dropped.
func (w *work) isVital(key string) bool {
	_, asked := w.plan.Overrides[key]
	return asked || vital(key)
}

// settings are those of the plan that were not left out.
func (w *work) settings() []KeyValue {
	var out []KeyValue
	for _, kv := range w.configs.Set {
		if !w.left[kv.Key] {
			out = append(out, kv)
		}
	}
	return out
}

func (w *work) value(key string) string {
	for _, kv := range w.configs.Set {
		if kv.Key == key {
			return kv.Value
		}
	}
	return ""
}

func (w *work) refuseCreation(err error) {
	switch reason := remote.ReasonOf(err); reason {
	case state.NoPermission:
		w.out.refuse(reason, "missing right: %s (or on the cluster): %v", remote.Right("Create", "topic", w.plan.Target), err)
	case state.TooFewBrokers:
		w.out.refuse(reason, "the topic asks for %d replicas: %v", w.plan.Replicas, err)
	default:
		w.out.refuse(reason, "create topic %s: %v", w.plan.Target, err)
	}
}

// grow adds partitions where the source has more (T4) and refuses topics that
// have more than the source.
func (t *Target) grow(ctx context.Context, existing []*work) error {
	var short []*work
	for _, w := range existing {
		have, want := w.out.Partitions, w.plan.Partitions
		if have > want {
			w.out.refuse(state.TopicRefused, "the target topic has %d partitions and the source topic %d: keyed records would not lie where consumers look for them", have, want)
		}
		if have < want {
			short = append(short, w)
		}
	}
	for _, chunk := range chunks(short) {
		answers, err := t.createPartitions(ctx, chunk)
		if err != nil {
			return err
		}
		for _, w := range chunk {
			switch err := answers[w.plan.Target]; {
			case err == nil:
				w.out.Partitions, w.out.Grown = w.plan.Partitions, true
			case errors.Is(err, kerr.InvalidPartitions):
				// Another klink added them since we looked; the next look tells.
				w.out.refuse(state.TopicRefused, "its partition count changed meanwhile: %v", err)
			default:
				w.out.fault(remote.Classify(fmt.Sprintf("add partitions to %s (it has %d, the source %d)", w.plan.Target, w.out.Partitions, w.plan.Partitions),
					remote.Right("Alter", "topic", w.plan.Target), err))
			}
		}
	}
	return nil
}

// correct compares settings of topics that were there and sets what is forced
// (T5).
func (t *Target) correct(ctx context.Context, existing []*work) error {
	var usable []*work
	var names []string
	for _, w := range existing {
		if w.out.Reason == "" {
			usable, names = append(usable, w), append(names, w.plan.Target)
		}
	}
	if len(usable) == 0 {
		return nil
	}
	have, err := describeConfigs(ctx, t.cl, names)
	if err != nil {
		return err
	}
	var wrong []*work
	for _, w := range usable {
		d := have[w.plan.Target]
		if d.err != nil || d.settings == nil {
			w.out.Warnings = append(w.out.Warnings, fmt.Sprintf("its settings cannot be checked: %v", d.err))
			w.out.Unfollowed = followed
			continue
		}
		w.out.MaxMessageBytes, _ = number(d.settings[keyMaxMessage].Value)
		w.out.CleanupPolicy = d.settings[keyCleanup].Value
		w.out.Changed = append(Corrections(w.configs, d.settings), w.follow(d.settings)...)
		if w.refuseCleanup(d.settings); w.out.Reason != "" {
			w.out.Changed = nil
			continue
		}
		if len(w.out.Changed) > 0 {
			wrong = append(wrong, w)
		}
	}
	return t.apply(ctx, wrong)
}

// forcedMessageBytes is the max.message.bytes that mirroring asks for.
func (w *work) forcedMessageBytes() int64 {
	for _, kv := range w.configs.Set {
		if kv.Key == keyMaxMessage {
			n, _ := number(kv.Value)
			return n
		}
	}
	return 0
}

func (t *Target) apply(ctx context.Context, wrong []*work) error {
	for _, chunk := range chunks(wrong) {
		answers, err := t.alterConfigs(ctx, chunk)
		if err != nil {
			return err
		}
		for _, w := range chunk {
			err := answers[w.plan.Target]
			if err == nil {
				w.out.MaxMessageBytes = max(w.out.MaxMessageBytes, w.forcedMessageBytes())
				if c, ok := changed(w.out.Changed, keyCleanup); ok {
					w.out.CleanupPolicy = c.Want
				}
				continue
			}
			text, critical := describe(w.out.Changed)
			w.unfollow(w.out.Changed)
			w.out.Changed = nil
			err = remote.Classify("set "+text+" on topic "+w.plan.Target, remote.Right("AlterConfigs", "topic", w.plan.Target), err)
			if critical {
				w.out.fault(err)
			} else {
				w.out.Warnings = append(w.out.Warnings, err.Error())
			}
		}
	}
	return nil
}

// describe writes corrections as "key=want (is have)".
func describe(cs []Correction) (text string, critical bool) {
	parts := make([]string, 0, len(cs))
	for _, c := range cs {
		parts = append(parts, fmt.Sprintf("%s=%s (is %s)", c.Key, c.Want, c.Have))
		critical = critical || c.Critical
	}
	return strings.Join(parts, ", "), critical
}
