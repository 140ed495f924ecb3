package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"klink/cmd/config"
)

// mechanism returns the login of s, or nil for none. The secret is read at each
// login (K1).
func mechanism(s config.SASL) sasl.Mechanism {
	scramAuth := func(context.Context) (scram.Auth, error) {
		password, err := s.Password()
		return scram.Auth{User: s.Username, Pass: password}, err
	}
	switch s.Mechanism {
	case config.MechanismPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.Password()
			return plain.Auth{User: s.Username, Pass: password}, err
		})
	case config.MechanismScramSHA256:
		return scram.Sha256(scramAuth)
	case config.MechanismScramSHA512:
		return scram.Sha512(scramAuth)
	case config.MechanismOAuthBearer:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := s.Token()
			return oauth.Auth{Token: token}, err
		})
	default:
		return nil
	}
}
