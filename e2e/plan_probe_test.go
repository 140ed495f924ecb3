package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/process"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
	"klink/linker/survey"
)

// TestProbe: on stock Kafka every fact holds; what a principal may not do is
// told as a limit or as a refusal, with the right that is missing; the scratch
// topic is gone afterwards, come what may.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) {
			k := startOne(t, lab.KafkaOptions{Version: version})
			t.Run("all holds", func(t *testing.T) { probeAll(t, k) })
			t.Run("interrupted", func(t *testing.T) { probeInterrupted(t, k) })
		})
	}
	t.Run("rights", probeRights)
}

// probe runs klink probe and reads its JSON, which a refusal has too.
func probe(t testing.TB, args ...string) (survey.ProbeResult, outcome) {
	t.Helper()
	o := command(t, append([]string{"probe", "-o", "json"}, args...)...)
	var r struct {
		Command string `json:"_command"`
		Version int    `json:"_version"`
		survey.ProbeResult
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || r.Command != "probe" || r.Version != 1 {
		t.Fatalf("klink probe %v: %v, exit code %d:\n%s%s", args, err, o.code, o.out, o.errOut)
	}
	return r.ProbeResult, o
}

func scratchTopics(t testing.TB, c lab.Cluster) []string {
	t.Helper()
	topics, err := admin(t, c).ListTopics(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	names := topics.Names()
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, survey.ScratchPrefix) })
}

func probeAll(t *testing.T, k *lab.Kafka) {
	const left = survey.ScratchPrefix + "of-another-time"
	create(t, k, lab.TopicSpec{Name: left})
	begin := time.Now()
	r, o := probe(t, "--target", k.Bootstrap()[0])
	t.Logf("took %s, rates %s", time.Since(begin).Round(time.Millisecond), o.out[strings.Index(o.out, `"rates"`):])
	if o.code != 0 || r.Verdict != survey.Full || len(r.Limits) != 0 || len(r.MissingRights) != 0 || r.Trouble != "" {
		t.Errorf("exit code %d, %+v: %s", o.code, r.Judgement, o.errOut)
	}
	for _, f := range r.Facts {
		if f.Holds != survey.Yes {
			t.Errorf("%s: %s, %s", f.Fact, f.Holds, f.Detail)
		}
	}
	for name, rate := range map[string]*float64{"data": r.Rates.AppendBytes, "markers": r.Rates.Markers, "markers in bulk": r.Rates.MarkersBulk, "padding": r.Rates.PadOffsets} {
		if rate == nil || *rate <= 0 {
			t.Errorf("rate of %s: %v", name, rate)
		}
	}
	if !r.TopicRemoved || !slices.Equal(r.Leftovers, []string{left}) {
		t.Errorf("removed: %v, left over: %q", r.TopicRemoved, r.Leftovers)
	}
	waitFor(t, "the probe's own topic to be gone, and no other", func() bool { return slices.Equal(scratchTopics(t, k), []string{left}) })
	deleteTopic(t, k, left)

	o = command(t, "probe", "--target", k.Bootstrap()[0])
	if o.code != 0 || !strings.Contains(o.out, "mirror mode works fully\n") || o.errOut != "" {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	if o = command(t, "probe", "--target", "127.0.0.1:1"); o.code != 1 || !strings.Contains(o.errOut, "nothing listens on that port") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
}

// probeInterrupted stops a probe by Ctrl-C once its topic is there.
func probeInterrupted(t *testing.T, k *lab.Kafka) {
	log := &lineLog{changed: make(chan struct{})}
	cmd := exec.Command(binary, "probe", "--target", k.Bootstrap()[0])
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() }) // gone already where all is well
	waitFor(t, "a scratch topic", func() bool { return len(scratchTopics(t, k)) > 0 })
	if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(stopTime):
		t.Fatalf("klink did not end within %v", stopTime)
	}
	text, _ := log.read()
	if err := p.Err(); err == nil || err.Error() != "exit status 1" || !strings.Contains(text, "stopped; the scratch topic "+survey.ScratchPrefix) || !strings.Contains(text, " is removed") {
		t.Errorf("ended with %v:\n%s", err, text)
	}
	// The controller has deleted it; the brokers learn of that a moment later.
	waitFor(t, "the scratch topic to be gone", func() bool { return len(scratchTopics(t, k)) == 0 })
}

// allow makes an ACL for klink's principal.
func allow(t testing.TB, k *lab.Kafka, b *kadm.ACLBuilder) {
	t.Helper()
	made, err := admin(t, k).CreateACLs(within(t, patience), b.Allow("User:"+principal).AllowHosts("*"))
	if err != nil || made[0].Err != nil {
		t.Fatalf("%v, %+v", err, made)
	}
}

// probeRights grants what a probe asks for, until nothing is missing.
func probeRights(t *testing.T) {
	k := startOne(t, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{principal}})
	s := &secured{}
	file := configFile(t, object{"name": "guarded", "topics": object{"include": []string{"orders"}}, "source": object{"brokers": []string{"127.0.0.1:1"}},
		"target": secureSide(k, password(lab.Plain, s.secretFile(t, k.Password(principal))))})

	r, o := probe(t, "-c", file)
	if o.code != 1 || r.Verdict != survey.Undecided || !slices.Equal(r.MissingRights, []string{"Create on topic " + survey.ScratchPrefix + "*"}) || !strings.Contains(o.errOut, r.Summary) {
		t.Errorf("exit code %d: %+v: %s", o.code, r.Judgement, o.errOut)
	}
	onScratch := func(ops ...kadm.ACLOperation) {
		t.Helper()
		allow(t, k, kadm.NewACLs().Topics(survey.ScratchPrefix).ResourcePatternType(kadm.ACLPatternPrefixed).Operations(ops...))
	}
	onScratch(kadm.OpCreate, kadm.OpDelete, kadm.OpDescribe)
	if r, o = probe(t, "-c", file); o.code != 1 || r.Verdict != survey.None || !slices.Contains(r.MissingRights, "Write on topic "+survey.ScratchPrefix+"*") || !r.TopicRemoved {
		t.Errorf("exit code %d: %+v, removed: %v: %s", o.code, r.Judgement, r.TopicRemoved, o.errOut)
	}
	onScratch(kadm.OpWrite, kadm.OpRead, kadm.OpAlterConfigs)
	if r, o = probe(t, "-c", file); o.code != 0 || r.Summary != "mirror mode works, without gaps, fences" || !slices.Equal(r.MissingRights, []string{"Alter (or ClusterAction) on the cluster"}) {
		t.Errorf("exit code %d: %+v: %s", o.code, r.Judgement, o.errOut)
	}
	allow(t, k, kadm.NewACLs().Clusters().Operations(kadm.OpAlter))
	if r, o = probe(t, "-c", file); o.code != 0 || r.Verdict != survey.Full || len(r.MissingRights) != 0 {
		t.Errorf("exit code %d: %+v: %s", o.code, r.Judgement, o.errOut)
	}
	// The controller has deleted it; the brokers learn of that a moment later.
	waitFor(t, "the scratch topic to be gone", func() bool { return len(scratchTopics(t, k)) == 0 })
}

// TestPlan: what a plan says of logs of every shape is what an ordinary consumer
// of the source sees, and planning leaves both clusters as they were.
func TestPlan(t *testing.T) {
	t.Parallel()
	for _, v := range []struct{ src, dst string }{{install.Newest, install.Oldest}, {install.Oldest, install.Newest}} {
		t.Run(v.src+" to "+v.dst, func(t *testing.T) {
			p := startPair(t, lab.KafkaOptions{Version: v.src, Props: shapes.BrokerProps()}, lab.KafkaOptions{Version: v.dst})
			planShapes(t, p)
		})
	}
	t.Run("rights", planRights)
}

// planOf runs klink plan and reads its JSON.
func planOf(t testing.TB, args ...string) survey.PlanResult {
	t.Helper()
	o := command(t, append([]string{"plan", "-o", "json"}, args...)...)
	var r struct {
		Command string `json:"_command"`
		Version int    `json:"_version"`
		survey.PlanResult
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != 0 || r.Command != "plan" || r.Version != 1 || o.errOut != "" {
		t.Fatalf("klink plan %v: %v, exit code %d:\n%s%s", args, err, o.code, o.out, o.errOut)
	}
	return r.PlanResult
}

func planShapes(t *testing.T, p pair) {
	ctx := within(t, 2*patience)
	fill(t, p.src, 71, 2_000, lab.TopicSpec{Name: "plain", Partitions: 3})
	var g errgroup.Group
	place := func(topic string) shapes.Place { return shapes.Place{Topic: topic, Partitions: 2, Seed: 72} }
	g.Go(func() error { return shapes.Transactions(ctx, p.src, place("transactions"), 60) })
	g.Go(func() error { return shapes.Compacted(ctx, p.src, place("compacted")) })
	g.Go(func() error { return shapes.Trimmed(ctx, p.src, place("trimmed"), 2_500, 100) })
	g.Go(func() error { return shapes.AppendTimes(ctx, p.src, place("stamped"), 50) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	want := map[string]survey.Outlook{"plain": survey.Raw, "transactions": survey.Raw, "compacted": survey.Recode, "trimmed": survey.PadFirst, "stamped": survey.Recode}
	args := p.plain("plain", "transactions", "compacted", "trimmed", "stamped")
	for name, r := range map[string]survey.PlanResult{"sampled": planOf(t, args...), "exact": planOf(t, append(args, "--exact")...)} {
		if len(r.Topics) != len(want) || len(r.Missing) != 0 {
			t.Errorf("%s: %d topics, missing rights %q", name, len(r.Topics), r.Missing)
		}
		for _, topic := range r.Topics {
			if topic.Verdict != want[topic.SourceTopic] {
				t.Errorf("%s: %s: %s, %q", name, topic.SourceTopic, topic.Verdict, topic.Reasons)
			}
			requirePlanned(t, p, topic)
		}
	}
	if o := command(t, append([]string{"plan"}, args...)...); o.code != 0 || !strings.Contains(o.out, "trimmed") || !strings.Contains(o.out, "the mirror begins at offset 2500") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	topics, err := admin(t, p.dst).ListTopicsWithInternal(within(t, patience))
	if err != nil || len(topics) != 0 {
		t.Errorf("planning has made topics on the target: %v, %v", topics.Names(), err)
	}
}

// requirePlanned compares the plan of logs that are small enough to be read as a
// whole with what an ordinary consumer finds.
func requirePlanned(t testing.TB, p pair, topic survey.TopicPlan) {
	t.Helper()
	for _, x := range topic.Partitions {
		start, end, visible := readCommitted(t, p.src, topic.SourceTopic, x.Partition)
		pads := start
		if *x.SourceStart != start || *x.SourceEnd != end || *x.PadOffsets != pads || *x.GapOffsets != end-start-visible || x.GapEstimated {
			t.Errorf("%s/%d: planned %d to %d, %d pads, %d gaps, estimated: %v; found %d to %d and %d records", topic.SourceTopic, x.Partition,
				*x.SourceStart, *x.SourceEnd, *x.PadOffsets, *x.GapOffsets, x.GapEstimated, start, end, visible)
		}
	}
}

// readCommitted counts the records that a consumer sees in a partition whose log
// has come to rest.
func readCommitted(t testing.TB, c *lab.Kafka, topic string, n int32) (start, end, visible int64) {
	t.Helper()
	ctx := within(t, patience)
	cl, err := kgo.NewClient(append(c.ClientOpts(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {n: kgo.NewOffset().AtStart()}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := starts.Lookup(topic, n)
	e, _ := ends.Lookup(topic, n)
	for last := s.Offset - 1; last < e.Offset-1; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s/%d behind offset %d, up to %d: %v", topic, n, last, e.Offset, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if last = r.Offset; !r.Attrs.IsControl() {
				visible++
			}
		})
	}
	return s.Offset, e.Offset, visible
}

// TestPlanEstimates: by rates measured on the target, the time that a partition is
// said to take is what it takes but for a factor: with data alone, with a gap
// behind every second record, and with a start far from zero. Since rates are those
// of a machine with other work, too, they are measured before and after the
// mirroring, and no other test runs beside.
func TestPlanEstimates(t *testing.T) {
	const rounds = 3
	p := startPair(t, lab.KafkaOptions{Version: install.Oldest, Props: shapes.BrokerProps()}, lab.KafkaOptions{})
	ctx := within(t, 3*patience)
	create(t, p.src, lab.TopicSpec{Name: "timed", Configs: lab.KeepEverything()})
	produce(t, p.src, lab.LoadOptions{Topics: []string{"timed"}, Seed: 73, Total: 200_000, MinBatch: 200, MaxBatch: 400, ValueBytes: 2000, Codecs: []string{"none"}})
	if err := shapes.Small(ctx, p.src, shapes.Place{Topic: "timed-gaps", Seed: 74}, 1_000); err != nil {
		t.Fatal(err)
	}
	if err := shapes.Trimmed(ctx, p.src, shapes.Place{Topic: "timed-start", Seed: 75}, 3_000_000, 1000); err != nil {
		t.Fatal(err)
	}
	left := []string{"timed", "timed-gaps", "timed-start"}
	for round := 0; round < rounds && len(left) > 0; round++ {
		left = estimateOnce(t, p, left, round)
	}
	if len(left) > 0 {
		t.Errorf("%v: in none of %d rounds within a factor of %d", left, rounds, EstimateFactor.N())
	}
}

// estimateOnce plans topics, mirrors one after the other, and compares both logs.
// It returns those for which the plan was wrong. The clock runs over the last four
// fifths of a mirroring, when all waits of a start are over.
func estimateOnce(t *testing.T, p pair, topics []string, round int) (wrong []string) {
	file := func(name, prefix string, topics ...string) string {
		l := openLink(name, p.src.Bootstrap()[0], p.dst.Bootstrap()[0])
		l["topics"] = object{"include": topics, "rename": object{"prefix": prefix}}
		return configFile(t, l)
	}
	measured := func(when string) map[string]survey.PartitionPlan {
		r := planOf(t, "-c", file(fmt.Sprint(when, round), fmt.Sprint(when, round, "."), topics...), "--measure")
		if rates := r.Rates[0]; rates.MeasuredAt == nil || rates.AgeSeconds == nil || time.Since(*rates.MeasuredAt) > patience {
			t.Errorf("%+v", rates)
		}
		plans := map[string]survey.PartitionPlan{}
		for _, topic := range r.Topics {
			plans[topic.SourceTopic] = topic.Partitions[0]
		}
		return plans
	}
	before := measured("before")
	part, took := map[string]float64{}, map[string]float64{}
	prefix := fmt.Sprintf("r%d.", round)
	for _, topic := range topics {
		end := *before[topic].SourceEnd
		k := startKlink(t, "-c", file(fmt.Sprintf("%s-%d", topic, round), prefix, topic))
		from := awaitEnd(t, k, topic, end/5)
		begin := time.Now()
		to := awaitEnd(t, k, topic, end)
		took[topic], part[topic] = time.Since(begin).Seconds(), float64(to-from)/float64(end)
		k.stop(t)
	}
	after, factor := measured("after"), float64(EstimateFactor.N())
	for _, topic := range topics {
		x := before[topic]
		b, a := *x.EstimatedSeconds*part[topic], *after[topic].EstimatedSeconds*part[topic]
		t.Logf("%s: %d bytes, %d pads, %d gaps: said %.2f s before and %.2f s after, took %.2f s", topic, *x.DataBytes, *x.PadOffsets, *x.GapOffsets, b, a, took[topic])
		if took[topic] > factor*max(b, a) || took[topic] < min(b, a)/factor {
			wrong = append(wrong, topic)
		}
		c, err := lab.CompareClusters(within(t, patience), p.src, p.dst, lab.CompareOptions{Topics: []string{topic}, Rename: map[string]string{topic: prefix + topic}})
		if visible := *x.SourceEnd - *x.SourceStart - *x.GapOffsets; err != nil || !c.Equal() || c.Records() != visible {
			t.Errorf("%v, %d records of %d: %s", err, c.Records(), visible, c)
		}
	}
	return wrong
}

// awaitEnd waits until partition 0 of the target ends at an offset or beyond, and
// returns where.
func awaitEnd(t testing.TB, k *klink, topic string, offset int64) (end int64) {
	t.Helper()
	k.await(t, fmt.Sprintf("offset %d", offset), func(l state.Link) bool {
		s, ok := partition(l, topic, 0)
		if ok && s.TargetEnd != nil {
			end = *s.TargetEnd
		}
		return end > 0 && end >= offset
	})
	return end
}

// planRights: rights that are missing are named, those that a cluster does not
// tell of are not taken for missing.
func planRights(t *testing.T) {
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{principal}})
	s := &secured{}
	fill(t, p.src, 74, 100, lab.TopicSpec{Name: "orders"})
	create(t, p.dst, lab.TopicSpec{Name: "orders"})
	file := configFile(t, object{"name": "guarded", "topics": object{"include": []string{"orders"}}, "source": object{"brokers": p.src.Bootstrap()},
		"target": secureSide(p.dst, password(lab.Plain, s.secretFile(t, p.dst.Password(principal))))})
	const markers = "target: Alter (or ClusterAction) on the cluster"

	r := planOf(t, "-c", file)
	if r.Topics[0].Verdict != survey.Refuse || !slices.Contains(r.Missing, "target: Describe on topic orders") || !slices.Contains(r.Unknown, markers) {
		t.Errorf("no rights: %s, missing %q, unknown %q", r.Topics[0].Verdict, r.Missing, r.Unknown)
	}
	grant(t, p.dst, right{"Describe", "orders"}, right{"Read", "orders"})
	r = planOf(t, "-c", file)
	if !slices.Equal(r.Missing, []string{"target: AlterConfigs on topic orders", "target: Delete on topic orders", "target: Describe on topic __klink",
		"target: DescribeConfigs on topic orders", "target: Write on topic orders"}) || r.Topics[0].Verdict != survey.Raw {
		t.Errorf("read only: %s, missing %q", r.Topics[0].Verdict, r.Missing)
	}
	grant(t, p.dst, writersRights("orders")...)
	grant(t, p.dst, writersRights("__klink")...)
	allow(t, p.dst, kadm.NewACLs().Topics("orders").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDelete))
	allow(t, p.dst, kadm.NewACLs().Clusters().Operations(kadm.OpDescribe))
	r = planOf(t, "-c", file)
	if !slices.Equal(r.Missing, []string{markers}) || slices.Contains(r.Unknown, markers) {
		t.Errorf("all but markers: missing %q, unknown %q", r.Missing, r.Unknown)
	}
	allow(t, p.dst, kadm.NewACLs().Clusters().Operations(kadm.OpAlter))
	if r = planOf(t, "-c", file); len(r.Missing) != 0 {
		t.Errorf("all rights: missing %q", r.Missing)
	}
}
