package lab

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SASL mechanisms of a SASLSSL cluster.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// serverName is the brokers' own certificate.
const serverName = "server"

// secrets are what the clients and brokers of one cluster prove themselves with.
type secrets struct {
	authority *authority
	passwords map[string]string // by user
}

// newSecrets makes the certificates and passwords that the options call for;
// nil for an open cluster.
func newSecrets(dir string, opts KafkaOptions) (*secrets, error) {
	if opts.Security == Plaintext {
		return nil, nil
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return nil, err
	}
	s := &secrets{authority: ca, passwords: map[string]string{}}
	for _, user := range append([]string{AdminUser}, opts.Users...) {
		s.passwords[user] = rand.Text()
	}
	names := []string{serverName}
	if opts.Security == MutualTLS {
		names = append(append(names, AdminUser), opts.Users...)
	}
	for _, name := range names {
		if err := ca.issue(name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// securityProperties are those of the client listener and the authorizer. The
// brokers' own listeners are open and their (nameless) user is a super user:
// they are on the loopback device and are the lab's own way in.
func (k *Kafka) securityProperties() map[string]string {
	if k.secrets == nil {
		return nil
	}
	listener := "listener.name." + strings.ToLower(clientListener) + "."
	p := map[string]string{
		"authorizer.class.name":              "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                        "User:ANONYMOUS;User:" + AdminUser,
		listener + "ssl.keystore.type":       "PEM",
		listener + "ssl.keystore.location":   k.secrets.authority.storeFile(serverName),
		listener + "ssl.truststore.type":     "PEM",
		listener + "ssl.truststore.location": k.secrets.authority.caFile(),
	}
	if k.opts.Security == MutualTLS {
		p[listener+"ssl.client.auth"] = "required"
		p[listener+"ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
		return p
	}
	const login = "org.apache.kafka.common.security."
	plainUsers := ""
	for user, password := range k.secrets.passwords {
		plainUsers += fmt.Sprintf(" user_%s=%q", user, password)
	}
	p[listener+"sasl.enabled.mechanisms"] = strings.Join([]string{Plain, ScramSHA256, ScramSHA512, OAuthBearer}, ",")
	p[listener+"plain.sasl.jaas.config"] = login + "plain.PlainLoginModule required" + plainUsers + ";"
	p[listener+"scram-sha-256.sasl.jaas.config"] = login + "scram.ScramLoginModule required;"
	p[listener+"scram-sha-512.sasl.jaas.config"] = login + "scram.ScramLoginModule required;"
	p[listener+"oauthbearer.sasl.jaas.config"] = login + "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";"
	return p
}

// createScramUsers gives every user its SCRAM credentials, which live in the
// cluster's metadata, and returns when each broker knows them.
func (k *Kafka) createScramUsers(ctx context.Context) error {
	if k.opts.Security != SASLSSL {
		return nil
	}
	client, err := kgo.NewClient(k.AdminOpts()...)
	if err != nil {
		return err
	}
	defer client.Close()
	// One mechanism a request: Kafka refuses two credentials of one user in one.
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		var upserts []kadm.UpsertSCRAM
		for user, password := range k.secrets.passwords {
			// 4096 rounds are the least that Kafka takes.
			upserts = append(upserts, kadm.UpsertSCRAM{User: user, Mechanism: mechanism, Iterations: 4096, Password: password})
		}
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, upserts)
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			return fmt.Errorf("create SCRAM users: %w", err)
		}
	}
	return k.awaitScram(ctx)
}

// awaitScram logs in at every broker: the answer of AlterUserScramCredentials
// comes from the controller, and brokers follow its log.
func (k *Kafka) awaitScram(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for _, b := range k.brokers {
		opts := append(k.LoginOpts(Login{User: AdminUser, Mechanism: ScramSHA512}), kgo.SeedBrokers(localAddr(b.clientPort)), kgo.RequestRetries(0))
		client, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		defer client.Close()
		for {
			err := client.Ping(ctx)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for SCRAM users at broker %d: %w", b.id, err)
			case <-tick.C:
			}
		}
	}
	return nil
}

// Login is who a client says it is. The zero value is the super user, by the
// cluster's first way to log in.
type Login struct {
	User      string // "" is AdminUser
	Password  string // "" is the right one; for OAUTHBEARER the token, where "" is a fresh one
	Mechanism string // SASLSSL only; "" is Plain
}

// ClientOpts connect as an ordinary client of the super user, through the
// proxies where there are any.
func (k *Kafka) ClientOpts() []kgo.Opt { return k.LoginOpts(Login{}) }

// LoginOpts are ClientOpts for somebody else.
func (k *Kafka) LoginOpts(l Login) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(k.Bootstrap()...)}
	if k.secrets == nil {
		return opts
	}
	if l.User == "" {
		l.User = AdminUser
	}
	opts = append(opts, kgo.DialTLSConfig(k.tlsConfig(l.User)))
	if k.opts.Security == SASLSSL {
		opts = append(opts, kgo.SASL(k.mechanism(l)))
	}
	return opts
}

// tlsConfig trusts the cluster's authority only and shows user's certificate
// where certificates are the login.
func (k *Kafka) tlsConfig(user string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(k.secrets.authority.cert)
	cfg := &tls.Config{RootCAs: roots}
	if k.opts.Security == MutualTLS {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(k.CertFile(user), k.KeyFile(user))
			return &cert, err
		}
	}
	return cfg
}

func (k *Kafka) mechanism(l Login) sasl.Mechanism {
	if l.Password == "" && l.Mechanism != OAuthBearer {
		l.Password = k.secrets.passwords[l.User]
	}
	switch l.Mechanism {
	case ScramSHA256:
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()
	case ScramSHA512:
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()
	case OAuthBearer:
		token := l.Password
		if token == "" {
			token = UnsignedToken(l.User, time.Hour)
		}
		return oauth.Auth{Token: token}.AsMechanism()
	default:
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	}
}

// Password is user's password on a SASLSSL cluster; "" for nobody's.
func (k *Kafka) Password(user string) string {
	if k.secrets == nil {
		return ""
	}
	return k.secrets.passwords[user]
}

// WriteSecret puts content into a file of the cluster's folder that only its
// owner can read, and returns its path: for password_file and token_file.
func (k *Kafka) WriteSecret(name, content string) (string, error) {
	f, err := os.CreateTemp(k.run.path, name+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return f.Name(), err
}

// CAFile is the authority's certificate in PEM; "" on an open cluster.
func (k *Kafka) CAFile() string {
	if k.secrets == nil {
		return ""
	}
	return k.secrets.authority.caFile()
}

// CertFile and KeyFile are user's certificate and key in PEM on a MutualTLS
// cluster.
func (k *Kafka) CertFile(user string) string { return k.secrets.authority.certFile(user) }

// KeyFile is described at CertFile.
func (k *Kafka) KeyFile(user string) string { return k.secrets.authority.keyFile(user) }

// UnsignedToken is a JSON web token without a signature (RFC 7519, 6), as
// Kafka's unsecured OAUTHBEARER validator takes it, for the principal user.
func UnsignedToken(user string, life time.Duration) string {
	now := time.Now()
	part := func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		if err != nil {
			panic(err) // strings and numbers always marshal
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]any{"alg": "none"}) + "." +
		part(map[string]any{"sub": user, "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(life).Unix()}) + "."
}
