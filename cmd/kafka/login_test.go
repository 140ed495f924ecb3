package kafka

import (
	"os"
	"strings"
	"testing"

	"klink/cmd/config"
)

// Each login reads its secret again (K1), and two logins with equal settings
// but other files send their own (K2).
func TestLoginReadsAnew(t *testing.T) {
	token, password := secretFile(t, "token-1\n"), secretFile(t, "password-1\n")
	for _, c := range []struct {
		sasl config.SASL
		file string
	}{
		{config.SASL{Mechanism: config.MechanismOAuthBearer, TokenFile: token}, token},
		{config.SASL{Mechanism: config.MechanismPlain, Username: "u", PasswordFile: password}, password},
	} {
		t.Run(string(c.sasl.Mechanism), func(t *testing.T) {
			m := mechanism(c.sasl)
			if m.Name() != string(c.sasl.Mechanism) {
				t.Errorf("name %s", m.Name())
			}
			for _, secret := range []string{"first", "second"} {
				if err := os.WriteFile(c.file, []byte(secret+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				_, sent, err := m.Authenticate(t.Context(), "host")
				if err != nil || !strings.Contains(string(sent), secret) {
					t.Errorf("sent %q, %v", sent, err)
				}
			}
		})
	}
}

func TestScramNeedsItsSecret(t *testing.T) {
	for _, name := range []config.Mechanism{config.MechanismScramSHA256, config.MechanismScramSHA512} {
		m := mechanism(config.SASL{Mechanism: name, Username: "u", PasswordFile: "/nowhere"})
		if m.Name() != string(name) {
			t.Errorf("name %s", m.Name())
		}
		if _, _, err := m.Authenticate(t.Context(), "host"); Classify(err).Cause != SecretUnusable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if mechanism(config.SASL{}) != nil {
		t.Error("a login without a mechanism")
	}
}
