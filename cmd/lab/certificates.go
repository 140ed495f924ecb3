package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is a certificate authority that lives as long as its cluster.
type authority struct {
	dir    string
	cert   *x509.Certificate
	key    crypto.Signer
	serial int64
}

// certificateLife is far longer than any test and short enough that a stray
// key is soon worth nothing.
const certificateLife = 7 * 24 * time.Hour

// newAuthority makes a root and writes its certificate to dir/ca.pem.
func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir}
	template := a.template("klink lab")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.key = key
	return a, os.WriteFile(a.caFile(), pemOf("CERTIFICATE", der), 0o644)
}

func (a *authority) template(commonName string) *x509.Certificate {
	a.serial++
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-time.Hour), // clocks of containers differ
		NotAfter:     now.Add(certificateLife),
	}
}

// issue writes NAME.pem and NAME-key.pem, good for servers on this machine and
// for clients, and NAME-store.pem with both, as Kafka's PEM key stores want it.
func (a *authority) issue(name string) error {
	template := a.template(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certificate for %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certPEM, keyPEM := pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", pkcs8)
	for path, content := range map[string][]byte{
		a.certFile(name):  certPEM,
		a.keyFile(name):   keyPEM,
		a.storeFile(name): append(keyPEM, certPEM...),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (a *authority) caFile() string               { return filepath.Join(a.dir, "ca.pem") }
func (a *authority) certFile(name string) string  { return filepath.Join(a.dir, name+".pem") }
func (a *authority) keyFile(name string) string   { return filepath.Join(a.dir, name+"-key.pem") }
func (a *authority) storeFile(name string) string { return filepath.Join(a.dir, name+"-store.pem") }

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
