package spell

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"run", "status", "version", "brokers", "include", "tls"}
	for _, c := range []struct {
		word, want string
		ok         bool
	}{
		{"statsu", "status", true},
		{"STATUS", "status", true},
		{"brokrs", "brokers", true},
		{"broker", "brokers", true},
		{"ssl", "tls", false},
		{"tsl", "tls", true},
		{"urn", "run", true},
		{"promote", "", false},
		{"", "", false},
	} {
		got, ok := Nearest(c.word, known)
		if ok != c.ok || (ok && got != c.want) {
			t.Errorf("Nearest(%q) = %q, %v; want %q, %v", c.word, got, ok, c.want, c.ok)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	if got := DidYouMean("statu", []string{"status"}); got != " (did you mean status?)" {
		t.Errorf("got %q", got)
	}
	if got := DidYouMean("xyz", []string{"status"}); got != "" {
		t.Errorf("got %q", got)
	}
}
