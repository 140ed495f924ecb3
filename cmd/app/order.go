package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"klink/cmd/show"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// Reasons of a topic's result, beside those of package state.
const (
	// reasonRefused: where the topic stands, the command may not be given.
	reasonRefused = "REFUSED"
	// reasonUnconfirmed: the command is on record, and a klink that seems to run has
	// not confirmed it in time.
	reasonUnconfirmed = "UNCONFIRMED"
	// reasonOverruled: another command came first.
	reasonOverruled = "OVERRULED"
	// reasonFailed: an error ended it.
	reasonFailed = "FAILED"
)

// orderResult is the result of the commands that give an order, in the shape of
// the JSON contract.
type orderResult struct {
	Link   string        `json:"link"`
	DryRun bool          `json:"dry_run"`
	Topics []topicResult `json:"topics"`
	// Failed counts the topics that are not OK.
	Failed int `json:"failed"`

	// link is whether the command changes what is wanted of the link itself, with
	// the topics that are found later.
	link bool
}

// topicResult is what became of one topic, or would.
type topicResult struct {
	SourceTopic string      `json:"source_topic"`
	TargetTopic string      `json:"target_topic"`
	State       state.State `json:"state"`
	OK          bool        `json:"ok"`
	Reason      string      `json:"reason"`
	Detail      string      `json:"detail"`
	Hint        string      `json:"hint"`

	// recorded is the topic as the command found it, want what was wanted of it.
	recorded state.Topic
	want     intent.Want
	// mirror is what was on record of its mirror.
	mirror control.TopicRecord
	// due is whether something is to be done for it, seen whether that was confirmed.
	due, seen bool
	// ends are those that adopt found, by partition.
	ends map[int32]int64
}

func (t *topicResult) fail(reason, detail, hint string) {
	t.OK, t.Reason, t.Detail, t.Hint = false, reason, detail, hint
}

// count fills in Failed.
func (r *orderResult) count() {
	r.Failed = 0
	for _, t := range r.Topics {
		if !t.OK {
			r.Failed++
		}
	}
}

// failure is the error of a result in which something failed; the table or the
// JSON has said what.
func (r *orderResult) failure(command string) error {
	if r.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %s failed", command, r.Failed, quantity(len(r.Topics), "topic"))
}

// due are the names of the topics for which something is to be done, sorted.
func (r *orderResult) due() []string {
	var out []string
	for _, t := range r.Topics {
		if t.due && t.OK {
			out = append(out, t.SourceTopic)
		}
	}
	slices.Sort(out)
	return out
}

// each calls do for the topics for which something is to be done. What fails is
// done for.
func (r *orderResult) each(do func(*topicResult) error) {
	for i := range r.Topics {
		t := &r.Topics[i]
		if !t.due || !t.OK {
			continue
		}
		if err := do(t); err != nil {
			t.fail(reasonFailed, err.Error(), "nothing is lost by giving the command again")
		}
	}
}

// order is a command that is carried out by whoever mirrors, once it is on record.
type order struct {
	// name is the command's, verb what it puts on record.
	name string
	verb intent.Verb
	// link: without topics it is about the link as a whole, else about all of them.
	link bool
	// want is what topics are to be afterwards; "" where that stays as it is.
	want intent.Want
	// done and already are words for a topic that has come there, and for one that
	// was there before. title heads the plan, effect says below it what the order
	// means.
	done, already, title, effect string
	// settled tells that there is nothing to do for a topic, and how come. Optional:
	// else a topic is settled that is by itself what it is to be.
	settled func(is intent.Intent, t topicResult) (how string, yes bool)
	// confirmed tells which partitions nobody has confirmed yet.
	confirmed func(now *sight, t topicResult, number int32) (missing []int32, ok bool)

	// inspect looks closer at a topic before anything is done; it may fail it, or
	// say more. prepare runs before the command is given, act right after it, and
	// finish once the command is obeyed or nobody runs that could. All are optional.
	inspect              func(ctx context.Context, con Console, t *topicResult) error
	prepare, act, finish func(ctx context.Context, con Console, t *topicResult) error
	// close runs in the end, where nothing failed. Optional.
	close func(ctx context.Context, con Console) error
	// partitions narrow the command; empty is all.
	partitions []int32
}

// console checks the line of a command that gives an order, and opens the record of
// the link that it is about.
func (s *shell) console(c *cli.Context) (con Console, asJSON bool, err error) {
	if asJSON, err = wantsJSON(c); err == nil {
		err = s.mayChange(c)
	}
	if err != nil {
		return nil, asJSON, err
	}
	cfg, err := oneLink(c, targetOnly(c))
	if err != nil {
		return nil, asJSON, err
	}
	if con, err = s.parts.Console(c.Context, cfg); err != nil {
		return nil, asJSON, fmt.Errorf("%s: %w", c.Command.Name, err)
	}
	return con, asJSON, nil
}

// order is the whole of a command that gives an order.
func (s *shell) order(c *cli.Context, o order) error {
	con, asJSON, err := s.console(c)
	if err != nil {
		return err
	}
	defer con.Close()
	r, command, err := o.plan(c.Context, con, c.Args().Slice())
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	var ended error
	if r.DryRun = c.Bool(flagDryRun); !r.DryRun && o.needed(r, command) {
		if err := s.confirm(c, s.orderPlan(r, o)); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		ended = o.carryOut(c.Context, con, execution{&r, command, c.Duration(flagTimeout)})
	}
	r.count()
	if asJSON {
		err = show.JSON(s.out, o.name, r)
	} else {
		err = s.printOrder(r, o)
	}
	if ended != nil {
		ended = fmt.Errorf("%s: %w", o.name, ended)
	}
	return errors.Join(err, ended, r.failure(o.name))
}

// plan says what the order would do to the topics that are named, or to all, and
// which command that takes.
func (o order) plan(ctx context.Context, con Console, words []string) (orderResult, intent.Command, error) {
	link := con.Link()
	r := orderResult{Link: link.Name, Topics: []topicResult{}}
	commands := con.Commands()
	now := intent.Fold(commands)
	command := newCommand(link.Name, o.verb, now.Next())
	command.Partitions = o.partitions
	chosen, err := chooseTopics(withNamed(link, now), words)
	if err != nil {
		return r, command, err
	}
	for _, t := range chosen {
		mirror, _ := con.Mirror(t.SourceTopic)
		r.Topics = append(r.Topics, topicResult{SourceTopic: t.SourceTopic, TargetTopic: t.TargetTopic, State: t.State, OK: true,
			recorded: t, want: now.Of(t.SourceTopic).Want, mirror: mirror})
	}
	if o.link && len(words) == 0 {
		return r, command, o.judgeLink(&r, commands, command)
	}
	o.judgeTopics(&r, now, command)
	if o.inspect != nil {
		r.each(func(t *topicResult) error { return o.inspect(ctx, con, t) })
		if err := unlessStopped(ctx, nil); err != nil { // what was found then is no news of the topics
			return r, command, err
		}
	}
	command.Topics = r.due()
	return r, command, nil
}

// withNamed adds to a link the topics that commands are about and of which nothing
// else is on record: those that were removed.
func withNamed(l state.Link, now intent.Intents) state.Link {
	l.Topics = slices.Clone(l.Topics)
	for _, name := range now.Named() {
		if _, ok := topicOf(l, name); !ok && now.Of(name).Want == intent.Removed {
			l.Topics = append(l.Topics, state.Topic{SourceTopic: name, TargetTopic: name, State: state.Removed})
		}
	}
	return l
}

// judgeTopics says for which topics something is to be done, and which refuse it.
func (o order) judgeTopics(r *orderResult, now intent.Intents, command intent.Command) {
	for i := range r.Topics {
		t := &r.Topics[i]
		is := now.Of(t.SourceTopic)
		if how, yes := o.isSettled(is, *t); yes {
			t.Detail = how
			continue
		}
		command.Topics = []string{t.SourceTopic}
		if err := now.Admits(command); err != nil {
			t.fail(reasonRefused, refusal(err)+by(is.Cause), "")
			continue
		}
		t.due = true
	}
}

func (o order) isSettled(is intent.Intent, t topicResult) (how string, yes bool) {
	if o.settled != nil {
		return o.settled(is, t)
	}
	return o.already + by(is.Cause), is.Want == o.want && !is.PausedByLink()
}

// judgeLink looks at the link as a whole, and at what the command leaves as it is.
func (o order) judgeLink(r *orderResult, commands []intent.Command, command intent.Command) error {
	is := intent.Fold(commands).Link()
	if err := is.Allows(o.verb); err != nil {
		return fmt.Errorf("link %s: %w", r.Link, err)
	}
	r.link = is.Want != o.want
	then := intent.Fold(append(slices.Clip(commands), command))
	for i := range r.Topics {
		t := &r.Topics[i]
		switch own := then.Of(t.SourceTopic); {
		case own.Want != o.want:
			t.Detail = "stays as it is: " + string(own.Want) + by(own.Cause)
		case own.Want == intent.Paused && !own.PausedByLink():
			t.Detail = o.already + by(own.Cause) // who mirrors it has confirmed that command, and will not confirm the link's
		case is.Want == o.want:
			t.Detail = o.already + by(is.Cause)
		default:
			t.due = true
		}
	}
	return nil
}

// refusal is why a command may not be given, without what the caller says itself.
func refusal(err error) string {
	var refused *intent.RefusedError
	if errors.As(err, &refused) {
		return refused.Why
	}
	return err.Error()
}

// needed tells whether there is anything to do. A link is paused also where no topic
// of it changes, and removed without topics as well.
func (o order) needed(r orderResult, command intent.Command) bool {
	return len(r.due()) > 0 || r.link || len(r.Topics) == 0 && (o.link || o.close != nil)
}

// by says who gave a command, and when.
func by(c intent.Command) string {
	if c.Number == 0 {
		return ""
	}
	return fmt.Sprintf(", by %s at %s", c.By, c.At.UTC().Format(time.RFC3339))
}

// execution is what carrying an order out needs.
type execution struct {
	result  *orderResult
	command intent.Command
	timeout time.Duration
}

// carryOut gives the command, waits until it is obeyed, and fills in what became
// of each topic.
func (o order) carryOut(ctx context.Context, con Console, x execution) error {
	if err := con.Open(ctx); err != nil {
		return failDue(x.result, err)
	}
	if o.prepare != nil {
		x.result.each(func(t *topicResult) error { return o.prepare(ctx, con, t) })
		x.command.Topics = x.result.due()
	}
	if len(x.command.Topics) > 0 || o.link {
		if err := o.obey(ctx, con, x); err != nil {
			return err
		}
	}
	if o.finish != nil {
		x.result.each(func(t *topicResult) error {
			if final, ok := stateOf[o.want]; ok {
				t.State, t.Detail = final, "" // also where nobody runs that could obey
			}
			return o.finish(ctx, con, t)
		})
	}
	if x.result.count(); o.close != nil && x.result.Failed == 0 {
		return o.close(ctx, con)
	}
	return nil
}

// obey gives the command and waits until it is obeyed.
func (o order) obey(ctx context.Context, con Console, x execution) error {
	number, err := give(ctx, con, x.command)
	if err != nil {
		return failDue(x.result, err)
	}
	if o.act != nil {
		x.result.each(func(t *topicResult) error { return o.act(ctx, con, t) })
	}
	w := &obedience{order: o, con: con, number: number, result: x.result}
	w.wait(ctx, x.timeout)
	w.tell()
	return nil
}

// give puts a command on record, and returns the number under which it stands
// there: another's where that says the same.
func give(ctx context.Context, con Console, c intent.Command) (int32, error) {
	err := con.Give(ctx, c)
	var lost *control.LostError
	if errors.As(err, &lost) && sayTheSame(lost.Winner, c) {
		return lost.Winner.Number, nil
	}
	return c.Number, err
}

func sayTheSame(a, b intent.Command) bool {
	return a.Verb == b.Verb && a.Group == b.Group && slices.Equal(a.Topics, b.Topics) && slices.Equal(a.Partitions, b.Partitions)
}

// failDue says of all topics that the command did not come on record; without any
// the error says it.
func failDue(r *orderResult, err error) error {
	if len(r.due()) == 0 {
		return err
	}
	r.each(func(t *topicResult) error {
		failGiven(t, err)
		return nil
	})
	return nil
}

func failGiven(t *topicResult, err error) {
	var lost *control.LostError
	if !errors.As(err, &lost) {
		t.fail(reasonFailed, err.Error(), "it may be on record all the same; nothing is lost by giving it again")
		return
	}
	w := lost.Winner
	t.fail(reasonOverruled, fmt.Sprintf("%s of %s came first%s", w.Verb, aboutWhat(w), by(w)),
		"nothing was done; look at klink status, and give the command again if it is still meant")
}

// aboutWhat names the topics of a command.
func aboutWhat(c intent.Command) string {
	if len(c.Topics) == 0 {
		return "the whole link"
	}
	return few(c.Topics)
}
