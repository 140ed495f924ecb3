package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func refOf(l *Link) reflect.Value { return reflect.ValueOf(l).Elem() }

func TestPasswordIsReadAnew(t *testing.T) {
	file := write(t, "password", "first\n")
	s := SASL{PasswordFile: file}
	for _, step := range []struct{ text, want string }{{"first\n", "first"}, {"second\r\n", "second"}, {" spaces stay \n\n", " spaces stay \n"}} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Password(); err != nil || got != step.want {
			t.Errorf("Password() = %q, %v; want %q", got, err, step.want)
		}
	}
}

func TestPasswordFromVariable(t *testing.T) {
	s := SASL{PasswordEnv: "KLINK_TEST_PASSWORD"}
	t.Setenv("KLINK_TEST_PASSWORD", "one\n")
	if got, err := s.Password(); err != nil || got != "one" {
		t.Errorf("Password() = %q, %v", got, err)
	}
	t.Setenv("KLINK_TEST_PASSWORD", "")
	var se *SecretError
	if _, err := s.Password(); !errors.As(err, &se) || err.Error() != "password_env: variable KLINK_TEST_PASSWORD is not set or is empty; set it in klink's environment" {
		t.Errorf("got %v", err)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "does not exist"},
		{"folder", dir, "is a folder"},
		{"open", file("open", "hunter2", 0o644), "is open to every user (mode 0644)"},
		{"writable", file("writable", "hunter2", 0o602), "is open to every user (mode 0602)"},
		{"empty", file("empty", "\n", 0o600), "is empty"},
		{"large", file("large", strings.Repeat("x", maxSecretBytes+1), 0o600), "is larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := SASL{TokenFile: c.path}.Token()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
	if got, err := (SASL{TokenFile: file("group", "token", 0o640)}).Token(); err != nil || got != "token" {
		t.Errorf("a file for owner and group: %q, %v", got, err)
	}
}

func TestCertificateFiles(t *testing.T) {
	junk := write(t, "junk.pem", "-----BEGIN CERTIFICATE-----\nhunter2\n-----END CERTIFICATE-----\n")
	if _, err := (TLS{CAFile: junk}).Roots(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Roots: %v", err)
	}
	if _, err := (TLS{CertFile: junk, KeyFile: junk}).Certificate(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Certificate: %v", err)
	}
	if pool, err := (TLS{}).Roots(); pool != nil || err != nil {
		t.Errorf("no ca_file: %v, %v", pool, err)
	}
	if cert, err := (TLS{}).Certificate(); cert != nil || err != nil {
		t.Errorf("no cert_file: %v, %v", cert, err)
	}
}

// No way of printing a Config shows a secret (C3).
func TestConfigHoldsNoSecret(t *testing.T) {
	const secret = "hunter2"
	t.Setenv("KLINK_TEST_PASSWORD", secret)
	cfg, err := Load(Options{File: write(t, "klink.yaml", fmt.Sprintf(`
links:
  - name: a
    source: {brokers: [s:9092], sasl: {mechanism: PLAIN, username: u, password_file: %s}}
    target: {brokers: [t:9092], sasl: {mechanism: SCRAM-SHA-512, username: u, password_env: KLINK_TEST_PASSWORD}}
    topics: {include: [orders]}
`, write(t, "password", secret)))})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if strings.Contains(fmt.Sprintf(verb, cfg.Links), secret) {
			t.Errorf("%s shows it", verb)
		}
	}
}
