package nomadtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate names the files of a certificate in PEM: its authority's, its own,
// and its key.
type Certificate struct{ CAFile, CertFile, KeyFile string }

// NewCertificate makes an authority, and a certificate of it for 127.0.0.1, good
// for servers and clients. The files are in a directory of the test's.
func NewCertificate(t testing.TB) *Certificate {
	t.Helper()
	dir := t.TempDir()
	c := &Certificate{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	c.Renew(t)
	return c
}

// Renew makes another authority and another certificate, in the same files.
func (c *Certificate) Renew(t testing.TB) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make a certificate: %v", err)
		}
	}
	valid := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "hpad test"},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	authority := valid(1)
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	authorityText, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	own := valid(2)
	own.KeyUsage, own.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	own.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	text, err := x509.CreateCertificate(rand.Reader, own, authority, &key.PublicKey, authorityKey)
	must(err)
	keyText, err := x509.MarshalECPrivateKey(key)
	must(err)
	for path, block := range map[string]*pem.Block{
		c.CAFile:   {Type: "CERTIFICATE", Bytes: authorityText},
		c.CertFile: {Type: "CERTIFICATE", Bytes: text},
		c.KeyFile:  {Type: "EC PRIVATE KEY", Bytes: keyText},
	} {
		must(os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
}

// CopyTo writes the files of this certificate over those of another.
func (c *Certificate) CopyTo(t testing.TB, other *Certificate) {
	t.Helper()
	for from, to := range map[string]string{c.CAFile: other.CAFile, c.CertFile: other.CertFile, c.KeyFile: other.KeyFile} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatalf("copy a certificate: %v", err)
		}
	}
}
