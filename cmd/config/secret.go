package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// maxSecretBytes bounds a secret's file; the largest real ones are chains of
// certificates and tokens with many claims.
const maxSecretBytes = 1 << 20

// SecretError says why a password, token, key or certificate cannot be used.
// It never holds the secret (C3).
type SecretError struct {
	// Key is the configuration key that names the place, From the place.
	Key, From string
	What, Do  string
	Err       error
}

// Error names the key, the place and what to do.
func (e *SecretError) Error() string {
	s := fmt.Sprintf("%s: %s %s", e.Key, e.From, e.What)
	if e.Do != "" {
		s += "; " + e.Do
	}
	return s
}

// Unwrap returns the underlying error, if any.
func (e *SecretError) Unwrap() error { return e.Err }

// Password reads the password from its file or variable, now.
func (s SASL) Password() (string, error) {
	if s.PasswordFile != "" {
		return readSecret("password_file", s.PasswordFile)
	}
	secret := dropNewline(os.Getenv(s.PasswordEnv))
	if secret == "" {
		return "", &SecretError{Key: "password_env", From: "variable " + s.PasswordEnv,
			What: "is not set or is empty", Do: "set it in klink's environment"}
	}
	return secret, nil
}

// Token reads the OAUTHBEARER token from its file, now.
func (s SASL) Token() (string, error) { return readSecret("token_file", s.TokenFile) }

// Roots reads the authorities to trust, now; nil means those of the system.
func (t TLS) Roots() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	pem, err := readFile("ca_file", t.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &SecretError{Key: "ca_file", From: t.CAFile, What: "holds no certificate in PEM form"}
	}
	return pool, nil
}

// Certificate reads the client's certificate and key, now; nil means none is
// configured.
func (t TLS) Certificate() (*tls.Certificate, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	cert, err := readFile("cert_file", t.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := readPrivate("key_file", t.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		// The error names what is wrong with the PEM blocks, never their bytes.
		return nil, &SecretError{Key: "cert_file, key_file", From: t.CertFile + ", " + t.KeyFile,
			What: "are no certificate and its key: " + err.Error(), Err: err}
	}
	return &pair, nil
}

func readSecret(key, file string) (string, error) {
	b, err := readPrivate(key, file)
	if err != nil {
		return "", err
	}
	secret := dropNewline(string(b))
	if secret == "" {
		return "", &SecretError{Key: key, From: file, What: "is empty"}
	}
	return secret, nil
}

// readPrivate reads a file that others must not be able to read or replace.
func readPrivate(key, file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return nil, &SecretError{Key: key, From: file,
			What: fmt.Sprintf("is open to every user (mode %04o)", info.Mode().Perm()),
			Do:   "run chmod o-rwx on it; in Kubernetes set defaultMode: 0440"}
	}
	return readFile(key, file)
}

func readFile(key, file string) ([]byte, error) {
	fail := func(what, do string, err error) ([]byte, error) {
		return nil, &SecretError{Key: key, From: file, What: what, Do: do, Err: err}
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("does not exist", "", err)
	case err != nil:
		return fail("cannot be read: "+reasonOf(err), "", err)
	case info.IsDir():
		return fail("is a folder", "name a file", nil)
	case info.Size() > maxSecretBytes:
		return fail(fmt.Sprintf("is larger than %d bytes", maxSecretBytes), "is it the right file?", nil)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return fail("cannot be read: "+reasonOf(err), "klink's user needs the right to read it", err)
	}
	return b, nil
}

// reasonOf leaves out the path, which the caller names already.
func reasonOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// dropNewline drops the one newline that editors and echo leave at the end.
func dropNewline(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return strings.TrimSuffix(s, "\r")
}

// secrets checks that everything secret can be read at start, so that a slip in
// a path shows at once and not as a failed login.
func (c *checker) secrets(cl *Cluster, path string) {
	add := func(under string, err error) {
		var se *SecretError
		if !errors.As(err, &se) {
			return
		}
		key, _, _ := strings.Cut(se.Key, ",")
		c.add(path+"."+under+"."+key, Problem{Kind: BadSecret, What: se.From + " " + se.What, Do: se.Do})
	}
	if cl.TLS.Enabled && c.sound(path+".tls") {
		_, err := cl.TLS.Roots()
		add("tls", err)
		_, err = cl.TLS.Certificate()
		add("tls", err)
	}
	if !c.sound(path + ".sasl") {
		return
	}
	switch cl.SASL.Mechanism {
	case MechanismNone:
	case MechanismOAuthBearer:
		_, err := cl.SASL.Token()
		add("sasl", err)
	default:
		_, err := cl.SASL.Password()
		add("sasl", err)
	}
}
