package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/labtest"
	"klink/cmd/lab/process"
	"klink/linker/survey"
)

// TestProbe: on stock Kafka every fact holds; what a principal may not do is
// told as a limit or as a refusal, with the right that is missing; the scratch
// topic is gone afterwards, come what may.
func TestProbe(t *testing.T) {
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) {
			k := labtest.StartKafka(t, lab.KafkaOptions{Version: version})
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
	if !r.TopicRemoved || !slices.Equal(r.Leftovers, []string{left}) || !slices.Equal(scratchTopics(t, k), []string{left}) {
		t.Errorf("removed: %v, left over: %q, there: %q", r.TopicRemoved, r.Leftovers, scratchTopics(t, k))
	}
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
	case <-time.After(10 * time.Second):
		t.Fatal("klink did not end within 10 s")
	}
	text, _ := log.read()
	if err := p.Err(); err == nil || err.Error() != "exit status 1" || !strings.Contains(text, "stopped; the scratch topic "+survey.ScratchPrefix) || !strings.Contains(text, " is removed") {
		t.Errorf("ended with %v:\n%s", err, text)
	}
	if left := scratchTopics(t, k); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// probeRights grants what a probe asks for, until nothing is missing.
func probeRights(t *testing.T) {
	k := labtest.StartKafka(t, lab.KafkaOptions{Security: lab.SASLSSL, Users: []string{principal}})
	s := &secured{}
	file := configFile(t, object{"name": "guarded", "topics": object{"include": []string{"orders"}}, "source": object{"brokers": []string{"127.0.0.1:1"}},
		"target": secureSide(k, password(lab.Plain, s.secretFile(t, k.Password(principal))))})

	r, o := probe(t, "-c", file)
	if o.code != 1 || r.Verdict != survey.Undecided || !slices.Equal(r.MissingRights, []string{"Create on topic " + survey.ScratchPrefix + "*"}) || !strings.Contains(o.errOut, r.Summary) {
		t.Errorf("exit code %d: %+v: %s", o.code, r.Judgement, o.errOut)
	}
	allow := func(b *kadm.ACLBuilder) {
		t.Helper()
		made, err := admin(t, k).CreateACLs(within(t, patience), b.Allow("User:"+principal).AllowHosts("*"))
		if err != nil || made[0].Err != nil {
			t.Fatalf("%v, %+v", err, made)
		}
	}
	onScratch := func(ops ...kadm.ACLOperation) {
		t.Helper()
		allow(kadm.NewACLs().Topics(survey.ScratchPrefix).ResourcePatternType(kadm.ACLPatternPrefixed).Operations(ops...))
	}
	onScratch(kadm.OpCreate, kadm.OpDelete, kadm.OpDescribe)
	if r, o = probe(t, "-c", file); o.code != 1 || r.Verdict != survey.None || !slices.Contains(r.MissingRights, "Write on topic "+survey.ScratchPrefix+"*") || !r.TopicRemoved {
		t.Errorf("exit code %d: %+v, removed: %v: %s", o.code, r.Judgement, r.TopicRemoved, o.errOut)
	}
	onScratch(kadm.OpWrite, kadm.OpRead, kadm.OpAlterConfigs)
	if r, o = probe(t, "-c", file); o.code != 0 || r.Summary != "mirror mode works, without gaps, fences" || !slices.Equal(r.MissingRights, []string{"Alter (or ClusterAction) on the cluster"}) {
		t.Errorf("exit code %d: %+v: %s", o.code, r.Judgement, o.errOut)
	}
	allow(kadm.NewACLs().Clusters().Operations(kadm.OpAlter))
	if r, o = probe(t, "-c", file); o.code != 0 || r.Verdict != survey.Full || len(r.MissingRights) != 0 {
		t.Errorf("exit code %d: %+v: %s", o.code, r.Judgement, o.errOut)
	}
	if left := scratchTopics(t, k); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}
