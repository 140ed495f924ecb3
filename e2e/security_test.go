package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/linker/state"
)

const principal = "klink"

// secured is a pair of clusters where who has no right may do nothing, and a
// source whose login is a client certificate.
type secured struct {
	pair
	certs *lab.Kafka
	// secrets are what must never be shown.
	secrets []string
}

// TestSecuredClusters: klink as an ordinary principal with its own authority,
// SCRAM-SHA-512 on one side and PLAIN on the other, then OAUTHBEARER, and client
// certificates. Wrong secrets and missing rights are states that name what is
// wanted and end by themselves; no secret is in any output.
func TestSecuredClusters(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	t.Run("logins and rights", func(t *testing.T) { loginsAndRights(t, s) })
	t.Run("side by side", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *secured){"doors": doors, "token": token, "certificate": certificate, "settings": settings, "access rules": accessRules} {
			t.Run(name, func(t *testing.T) { t.Parallel(); run(t, s) })
		}
	})
}

func startSecured(t testing.TB) *secured {
	t.Helper()
	users := []string{principal}
	all := startAll(t, lab.KafkaOptions{Security: lab.SASLSSL, Users: users}, lab.KafkaOptions{Security: lab.SASLSSL, Users: users},
		lab.KafkaOptions{Security: lab.MutualTLS, Users: users})
	s := &secured{pair: pair{src: all[0], dst: all[1]}, certs: all[2]}
	for _, k := range []*lab.Kafka{s.src, s.dst} {
		s.secrets = append(s.secrets, k.Password(principal), k.Password(lab.AdminUser))
	}
	return s
}

// secureSide is one cluster in klink.yaml.
func secureSide(k *lab.Kafka, sasl object) object {
	o := object{"brokers": k.Bootstrap(), "tls": object{"enabled": true, "ca_file": k.CAFile()}}
	if sasl != nil {
		o["sasl"] = sasl
	}
	return o
}

func password(mechanism, file string) object {
	return object{"mechanism": mechanism, "username": principal, "password_file": file}
}

// secretFile holds one secret, to be replaced while klink runs.
func (s *secured) secretFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	s.replace(t, path, content)
	return path
}

// replace puts another secret in a file's place, as a rotation does.
func (s *secured) replace(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// right is one ACL of klink's principal.
type right struct{ op, topic string }

func (r right) String() string { return r.op + " on topic " + r.topic }

var operations = map[string]kadm.ACLOperation{
	"Describe": kadm.OpDescribe, "DescribeConfigs": kadm.OpDescribeConfigs, "Read": kadm.OpRead, "Write": kadm.OpWrite,
	"Create": kadm.OpCreate, "Alter": kadm.OpAlter, "AlterConfigs": kadm.OpAlterConfigs,
}

func (r right) acl(t testing.TB) *kadm.ACLBuilder {
	t.Helper()
	op, ok := operations[r.op]
	if !ok {
		t.Fatalf("unknown right %s", r)
	}
	return kadm.NewACLs().Topics(r.topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(op).Allow("User:" + principal).AllowHosts("*")
}

func grant(t testing.TB, k *lab.Kafka, rights ...right) {
	t.Helper()
	for _, r := range rights {
		made, err := admin(t, k).CreateACLs(within(t, patience), r.acl(t))
		if err == nil {
			err = made[0].Err
		}
		if err != nil {
			t.Fatalf("grant %s: %v", r, err)
		}
	}
}

func revoke(t testing.TB, k *lab.Kafka, r right) {
	t.Helper()
	gone, err := admin(t, k).DeleteACLs(within(t, patience), r.acl(t))
	if err != nil || len(gone) != 1 || gone[0].Err != nil || len(gone[0].Deleted) != 1 {
		t.Fatalf("revoke %s: %v, %+v", r, err, gone)
	}
}

// readersRights and writersRights are those that the README lists for a topic.
func readersRights(topic string) []right {
	return []right{{"Describe", topic}, {"Read", topic}, {"DescribeConfigs", topic}}
}

func writersRights(topic string) (all []right) {
	for _, op := range []string{"Describe", "Read", "Write", "Create", "Alter", "DescribeConfigs", "AlterConfigs"} {
		all = append(all, right{op, topic})
	}
	return all
}

var namedRight = regexp.MustCompile(`missing right: (\w+) on topic ([\w.-]+)`)

// missingRights reads which rights a report asks for, and on which side.
func missingRights(l state.Link) (src, dst []right) {
	note := func(s state.State, reason, detail string) {
		if reason != string(state.NoPermission) {
			return
		}
		for _, m := range namedRight.FindAllStringSubmatch(detail, -1) {
			r := right{m[1], m[2]}
			if s == state.SourceUnavailable || strings.HasPrefix(detail, "source: ") {
				src = append(src, r)
			} else {
				dst = append(dst, r)
			}
		}
	}
	note(l.State, l.Reason, l.Detail)
	for _, t := range l.Topics {
		note(t.State, t.Reason, t.Detail)
		for _, p := range t.Partitions {
			note(p.State, p.Reason, p.Detail)
		}
	}
	return src, dst
}

// loginsAndRights begins with wrong passwords and no right at all, and does what
// the status says until all is mirrored.
func loginsAndRights(t *testing.T, s *secured) {
	n := fill(t, s.src, 61, 3_000, lab.TopicSpec{Name: "orders", Partitions: 3})
	srcFile, dstFile := s.secretFile(t, "not-the-source's-password"), s.secretFile(t, "not-the-target's-password")
	s.secrets = append(s.secrets, "not-the-source's-password", "not-the-target's-password")
	file := configFile(t, object{"name": "guarded", "topics": object{"include": []string{"orders"}},
		"source": secureSide(s.src, password(lab.ScramSHA512, srcFile)), "target": secureSide(s.dst, password(lab.Plain, dstFile))})
	k := startKlink(t, "-c", file)

	k.awaitLink(t, "guarded", state.Failed, state.Authentication, "target", "the login is refused")
	k.requireUnready(t, "guarded", "AUTHENTICATION", "the login is refused")
	r, _ := statusOf(t, "-c", file, "--http", k.addr)
	requireTold(t, "klink status", linkOf(r, "guarded").Detail, linkOf(r, "guarded").Hint, []string{"the login is refused"})
	s.replace(t, dstFile, s.dst.Password(principal))
	// The target's login is right now, and its rights are missing; the source's login is wrong still.
	k.awaitLink(t, "guarded", state.Failed, state.NoPermission, "target", "on topic __klink")
	granted := s.followHints(t, k, "guarded", func(l state.Link) bool { return l.Reason == string(state.Authentication) })
	k.awaitLink(t, "guarded", state.Failed, state.Authentication, "source", "the login is refused")
	s.replace(t, srcFile, s.src.Password(principal))
	maps.Copy(granted, s.followHints(t, k, "guarded", func(l state.Link) bool { return topicOf(l, "orders").State == state.Active }))
	requireMirrored(t, s.pair, n, "orders")
	k.awaitReady(t)
	k.requireSaidOnce(t)

	// What was needed is what the README lists as needed.
	needed := []string{"source Describe on topic orders", "source Read on topic orders", "target Create on topic __klink", "target Create on topic orders",
		"target Describe on topic __klink", "target Describe on topic orders", "target Read on topic __klink", "target Read on topic orders",
		"target Write on topic __klink", "target Write on topic orders"}
	if got := slices.Sorted(maps.Keys(granted)); !slices.Equal(got, needed) {
		t.Errorf("rights granted until all was mirrored:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(needed, "\n"))
	}

	for _, c := range []struct {
		k     *lab.Kafka
		right right
		state state.State
	}{
		{s.dst, right{"Write", "orders"}, state.Halted},
		{s.src, right{"Read", "orders"}, state.SourceUnavailable},
	} {
		revoke(t, c.k, c.right)
		n += produce(t, s.src, lab.LoadOptions{Topics: []string{"orders"}, Seed: 62, Total: 600, MaxBatch: 20}).Acked
		k.awaitTopic(t, "orders", c.state, state.NoPermission, "missing right: "+c.right.String())
		if c.state == state.SourceUnavailable {
			k.requireUnready(t, "missing right: "+c.right.String())
		}
		s.requireSecret(t, k, file)
		k.kill(t) // nothing of what was refused counts as done (C108)
		k = startKlink(t, "-c", file)
		k.awaitTopic(t, "orders", c.state, state.NoPermission, "missing right: "+c.right.String())
		k.requireSaid(t, "orders", "NO_PERMISSION")
		grant(t, c.k, c.right)
		requireMirrored(t, s.pair, n, "orders")
		k.awaitTopic(t, "orders", state.Active, "")
		k.requireSaidOnce(t)
	}

	// Without Write on its own topic klink mirrors on, and says that nothing is
	// recorded; only what must be recorded first waits.
	revoke(t, s.dst, right{"Write", "__klink"})
	n += produce(t, s.src, lab.LoadOptions{Topics: []string{"orders"}, Seed: 63, Total: 600, MaxBatch: 20}).Acked
	requireMirrored(t, s.pair, n, "orders")
	waitFor(t, "a word about the record", func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(k.complaints())), func(about string) bool {
			return strings.Contains(about, "states are not recorded") && strings.Contains(about, "NO_PERMISSION")
		})
	})
	grant(t, s.dst, right{"Write", "__klink"})
	waitFor(t, "the record to go on", func() bool { text, _ := k.log.read(); return strings.Contains(text, "states are recorded again") })
	k.requireSaidOnce(t)
	s.requireSecret(t, k, file)
	k.stop(t)
}

// followHints grants what the status names until it is as wanted, and returns
// what it granted.
func (s *secured) followHints(t testing.TB, k *klink, link string, done func(state.Link) bool) map[string]bool {
	t.Helper()
	granted := map[string]bool{}
	give := func(side string, c *lab.Kafka, rights []right) {
		for _, r := range rights {
			if name := side + " " + r.String(); !granted[name] {
				granted[name] = true
				t.Logf("%s: the status asks for %s", side, r)
				grant(t, c, r)
			}
		}
	}
	k.awaitReport(t, "all rights that are named to be enough", func(r state.Report) bool {
		l := linkOf(r, link)
		src, dst := missingRights(l)
		give("source", s.src, src)
		give("target", s.dst, dst)
		return done(l)
	})
	return granted
}

// requireSecret holds that nothing klink puts out has a secret in it.
func (s *secured) requireSecret(t testing.TB, k *klink, file string) {
	t.Helper()
	outputs := map[string]string{}
	outputs["log"], _ = k.log.read()
	for _, path := range []string{"/metrics", "/v1/status", "/", "/readyz", "/healthz"} {
		_, body, err := k.get(within(t, patience), path)
		if err != nil {
			t.Fatal(err)
		}
		outputs[path] = string(body)
	}
	for _, args := range [][]string{{"status", "-c", file, "--http", k.addr}, {"status", "-c", file, "--http", k.addr, "-o", "json"},
		{"status", "-c", file, "--http", "127.0.0.1:1"}, {"run", "-c", file, "--http", k.addr}, {"run", "--help"}} {
		o := command(t, args...)
		outputs[strings.Join(args, " ")] = o.out + o.errOut
	}
	for what, text := range outputs {
		if text == "" {
			t.Errorf("%s is empty: nothing was looked at", what)
		}
		for _, secret := range s.secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in %s", what)
			}
		}
	}
}

// doors: what is wrong with a connection is told apart.
func doors(t *testing.T, s *secured) {
	right := s.secretFile(t, s.src.Password(principal))
	dst := secureSide(s.dst, password(lab.ScramSHA256, s.secretFile(t, s.dst.Password(principal))))
	var links []object
	cases := []struct {
		name   string
		source object
		reason state.Reason
		word   string
	}{
		{"plaintext", object{"brokers": s.src.Bootstrap()}, state.Authentication, "the port wants TLS"},
		{"stranger", object{"brokers": s.src.Bootstrap(), "tls": object{"enabled": true}, "sasl": password(lab.Plain, right)}, state.Authentication, "signed by an authority klink does not know"},
		{"nobody", secureSide(s.src, nil), state.Authentication, "the cluster wants a login"},
		{"no-certificate", secureSide(s.certs, nil), state.Authentication, "wants one"},
		{"other-mechanism", secureSide(s.certs, password(lab.Plain, right)), state.Authentication, ""},
	}
	for _, c := range cases {
		links = append(links, object{"name": c.name, "topics": object{"include": []string{c.name}}, "source": c.source, "target": dst})
	}
	file := configFile(t, links...)
	k := startKlink(t, "-c", file)
	for _, c := range cases {
		k.awaitLink(t, c.name, state.Failed, c.reason, "source", c.word)
		k.requireUnready(t, c.name)
	}
	k.requireSaidOnce(t)
	s.requireSecret(t, k, file)
	k.stop(t)
}

// token: OAUTHBEARER with a token that has run out, and is renewed.
func token(t *testing.T, s *secured) {
	const topic = "tokens"
	n := fill(t, s.src, 71, 500, lab.TopicSpec{Name: topic, Partitions: 2})
	grant(t, s.src, readersRights(topic)...)
	grant(t, s.dst, writersRights(topic)...)
	old := lab.UnsignedToken(principal, -time.Minute)
	srcFile, dstFile := s.secretFile(t, old), s.secretFile(t, old)
	bearer := func(file string) object { return object{"mechanism": lab.OAuthBearer, "token_file": file} }
	file := configFile(t, object{"name": topic, "topics": object{"include": []string{topic}},
		"source": secureSide(s.src, bearer(srcFile)), "target": secureSide(s.dst, bearer(dstFile))})
	k := startKlink(t, "-c", file)
	k.awaitLink(t, topic, state.Failed, state.Authentication, "target", "the login is refused")
	srcToken, dstToken := lab.UnsignedToken(principal, time.Hour), lab.UnsignedToken(principal, 2*time.Hour)
	s.replace(t, dstFile, dstToken)
	k.awaitLink(t, topic, state.Failed, state.Authentication, "source", "the login is refused")
	s.replace(t, srcFile, srcToken)
	requireMirrored(t, s.pair, n, topic)
	k.awaitReady(t)
	mine := &secured{pair: s.pair, certs: s.certs, secrets: []string{old, srcToken, dstToken, s.dst.Password(principal)}}
	mine.requireSecret(t, k, file)
	k.stop(t)
}

// certificate: a login by certificate, first with one that the source's
// authority has not signed.
func certificate(t *testing.T, s *secured) {
	const topic = "certified"
	n := fill(t, s.certs, 72, 500, lab.TopicSpec{Name: topic, Partitions: 2})
	grant(t, s.certs, readersRights(topic)...)
	grant(t, s.dst, writersRights(topic)...)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	use := func(k *lab.Kafka, user string) {
		for from, to := range map[string]string{k.CertFile(user): cert, k.KeyFile(user): key} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			s.replace(t, to, strings.TrimSuffix(string(b), "\n"))
		}
	}
	use(s.src, "server")
	src := secureSide(s.certs, nil)
	src["tls"].(object)["cert_file"], src["tls"].(object)["key_file"] = cert, key
	file := configFile(t, object{"name": topic, "topics": object{"include": []string{topic}}, "source": src,
		"target": secureSide(s.dst, password(lab.Plain, s.secretFile(t, s.dst.Password(principal))))})
	k := startKlink(t, "-c", file)
	k.awaitLink(t, topic, state.Failed, state.Authentication, "source", "refuses klink's certificate")
	use(s.certs, principal)
	requireMirrored(t, pair{s.certs, s.dst}, n, topic)
	k.awaitReady(t)
	k.requireSaidOnce(t)
	k.stop(t)
}

// settings: klink may not set configs, and somebody else sets them too low.
func settings(t *testing.T, s *secured) {
	topics := []string{"sized", "stamped"}
	n := fill(t, s.src, 73, 1_000, lab.TopicSpec{Name: "sized", Partitions: 3}, lab.TopicSpec{Name: "stamped", Partitions: 2})
	for _, topic := range topics {
		grant(t, s.src, readersRights(topic)...)
		for _, r := range writersRights(topic) {
			if r.op != "AlterConfigs" {
				grant(t, s.dst, r)
			}
		}
	}
	file := configFile(t, object{"name": "settings", "topics": object{"include": topics},
		"source": secureSide(s.src, password(lab.ScramSHA512, s.secretFile(t, s.src.Password(principal)))),
		"target": secureSide(s.dst, password(lab.Plain, s.secretFile(t, s.dst.Password(principal))))})
	k := startKlink(t, "-c", file)
	for _, topic := range topics {
		k.awaitTopic(t, topic, state.Active, "")
	}
	const limit = 20_000
	setConfig(t, s.dst, "sized", "max.message.bytes", fmt.Sprint(limit))
	setConfig(t, s.dst, "stamped", "message.timestamp.after.max.ms", "3600000")
	// One record too large and one from the day after tomorrow, in partition 1; the
	// other partitions go on.
	for i, topic := range topics {
		n += produce(t, s.src, lab.LoadOptions{Topics: []string{topic}, Seed: 74 + uint64(i), Total: 300, MaxBatch: 20, To: time.Now(), From: time.Now().Add(-time.Hour)}).Acked
	}
	odd := oddRecords(t, s.src)
	n += 2
	for i, topic := range topics {
		n += produce(t, s.src, lab.LoadOptions{Topics: []string{topic}, Seed: 76 + uint64(i), Total: 300, MaxBatch: 20, To: time.Now(), From: time.Now().Add(-time.Hour)}).Acked
	}
	k.awaitStop(t, "sized", 1, state.Halted, state.TooLarge, fmt.Sprint(odd["sized"]), "100", fmt.Sprint(limit))
	k.awaitStop(t, "stamped", 1, state.TargetUnavailable, state.TopicRefused, "INVALID_TIMESTAMP", "record")
	k.requireUnready(t, "stamped/1: TARGET_UNAVAILABLE (TOPIC_REFUSED")
	for _, topic := range topics {
		for _, other := range []int32{0, 2} {
			if topic == "sized" || other == 0 {
				k.awaitStop(t, topic, other, state.Active, "")
			}
		}
	}
	k.requireSaid(t, "sized", "partition=1", "TOO_LARGE")
	k.requireSaid(t, "stamped", "partition=1", "TOPIC_REFUSED")
	k.requireSaidOnce(t)
	setConfig(t, s.dst, "sized", "max.message.bytes", "2000000")
	setConfig(t, s.dst, "stamped", "message.timestamp.after.max.ms", "9223372036854775807")
	requireMirrored(t, s.pair, n, topics...)
	for _, topic := range topics {
		k.awaitTopic(t, topic, state.Active, "")
	}
	k.requireSaidOnce(t)
	k.stop(t)
}

// awaitStop waits for one partition's state and reason in any link.
func (k *klink) awaitStop(t testing.TB, topic string, n int32, s state.State, why state.Reason, words ...string) {
	t.Helper()
	var found state.Partition
	k.awaitReport(t, fmt.Sprintf("%s/%d %s %s with %q", topic, n, s, why, words), func(r state.Report) bool {
		for _, l := range r.Links {
			p, ok := partition(l, topic, n)
			if found = p; ok && p.State == s && p.Reason == string(why) && tells(p.Detail, words) {
				return true
			}
		}
		return false
	})
	if why != "" {
		requireTold(t, fmt.Sprint(topic, n), found.Detail, found.Hint, words)
	}
}

// oddRecords writes a record that is too large for sized[1] and one that is too
// far ahead for stamped[1], and returns their offsets by topic.
func oddRecords(t testing.TB, c lab.Cluster) map[string]int64 {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	got := cl.ProduceSync(within(t, patience),
		&kgo.Record{Topic: "sized", Partition: 1, Value: make([]byte, 100_000)},
		&kgo.Record{Topic: "stamped", Partition: 1, Value: []byte("ahead"), Timestamp: time.Now().Add(48 * time.Hour)})
	if err := got.FirstErr(); err != nil {
		t.Fatal(err)
	}
	at := map[string]int64{}
	for _, r := range got {
		at[r.Record.Topic] = r.Record.Offset
	}
	return at
}
