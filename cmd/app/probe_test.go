package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"klink/cmd/config"
	"klink/linker/survey"
)

// probed is what a probe found on a target without the right to write markers.
func probed() survey.ProbeResult {
	found := []survey.Finding{{Fact: survey.MarkersAllowed, Holds: survey.No, MissingRight: "Alter (or ClusterAction) on the cluster", Detail: "CLUSTER_AUTHORIZATION_FAILED"},
		{Fact: survey.FenceHolds, Detail: "not tried without markers_allowed"}}
	for _, f := range survey.Complete(nil) {
		switch f.Fact {
		case survey.MarkersAllowed, survey.FenceHolds:
		default:
			found = append(found, survey.Finding{Fact: f.Fact, Holds: survey.Yes})
		}
	}
	return survey.ProbeResult{AsOf: asOf, Judgement: survey.Judge(found), Facts: survey.Complete(found), ClusterID: "AAAAAAAAAAAAAAAAAAAAAA", BrokerVersion: "v4.1", Brokers: 3,
		Topic: survey.ScratchPrefix + "0123abcd", Replicas: 3, TopicRemoved: true, Leftovers: []string{survey.ScratchPrefix + "old"},
		Rates: survey.Rates{AppendBytes: ptr(85.5 * (1 << 20)), PadOffsets: ptr(1_234_567.8)}}
}

// probing returns parts whose probe gives r and err.
func probing(r survey.ProbeResult, err error) Parts {
	return Parts{Probe: func(context.Context, *config.Config) (survey.ProbeResult, error) { return r, err }}
}

func TestProbeCommand(t *testing.T) {
	r := execute(t.Context(), probing(probed(), nil), "probe", "--target", "t:9092")
	if r.code != 0 || r.err != "" {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/probe.golden", r.out)
	golden(t, "testdata/help-probe.golden", execute(t.Context(), Parts{}, "probe", "--help").out)

	r = execute(t.Context(), probing(probed(), nil), "probe", "--target", "t:9092", "-o", "json")
	var got struct {
		Command string `json:"_command"`
		Version int    `json:"_version"`
		Verdict string
		Facts   []struct {
			Fact  string
			Holds *bool
		}
		Rates map[string]*float64
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Command != "probe" || got.Version != 1 || got.Verdict != "limited" || len(got.Facts) != len(survey.Complete(nil)) {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, f := range got.Facts {
		if open := f.Fact == string(survey.FenceHolds); (f.Holds == nil) != open {
			t.Errorf("%+v", f)
		}
	}
	if rate, ok := got.Rates["markers_per_second"]; !ok || rate != nil {
		t.Errorf("%+v", got.Rates)
	}
}

func TestProbeFails(t *testing.T) {
	none := probed()
	none.Judgement = survey.Judge([]survey.Finding{{Fact: survey.SequenceChecked, Holds: survey.No}})
	left := probed()
	left.TopicRemoved, left.NotRemoved = false, "missing right: Delete"
	for name, c := range map[string]struct {
		r    survey.ProbeResult
		err  error
		want string
	}{
		"no mirror mode":   {none, nil, "klink: probe: mirror mode cannot work here\n"},
		"topic left":       {left, nil, "klink: probe: the scratch topic __klink-probe-0123abcd may still be there, remove it: missing right: Delete\n"},
		"stopped":          {probed(), context.Canceled, "klink: probe: stopped; the scratch topic __klink-probe-0123abcd is removed\n"},
		"stopped and left": {left, context.Canceled, "klink: probe: stopped; the scratch topic __klink-probe-0123abcd may still be there, remove it: missing right: Delete\n"},
		"nothing done":     {survey.ProbeResult{}, errors.New("no answer"), "klink: probe: no answer\n"},
	} {
		r := execute(t.Context(), probing(c.r, c.err), "probe", "--target", "t:9092")
		if r.code != 1 || r.err != c.want || (c.err == nil) != (r.out != "") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestProbeUsage(t *testing.T) {
	file := configFile(t, "", "east", "west")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"two links": {[]string{"-c", file}, "choose with --link one of east, west"},
		"topics":    {[]string{"orders", "--target", "t:9092"}, "takes no topics"},
		"nothing":   {nil, "nothing says what to mirror"},
		"format":    {[]string{"--target", "t:9092", "-o", "xml"}, "xml"},
	} {
		r := execute(t.Context(), probing(probed(), nil), append([]string{"probe"}, c.args...)...)
		if r.code != 2 || !strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := execute(t.Context(), probing(probed(), nil), "probe", "-c", file, "--link", "west"); r.code != 0 {
		t.Errorf("%+v", r)
	}
}
