package nomadtest

import (
	"os"
	"testing"

	"github.com/hpad/hpad/settings/webtest"
)

// Certificate contains the paths of the PEM files of a certificate, its key and its CA.
type Certificate struct {
	CAFile, CertFile, KeyFile string
	dir                       string
}

// NewCertificate creates a CA and a certificate for 127.0.0.1, which servers and clients can use.
func NewCertificate(t testing.TB) *Certificate {
	t.Helper()
	c := &Certificate{dir: t.TempDir()}
	c.Renew(t)
	return c
}

// Renew replaces the files with a new CA and a new certificate.
func (c *Certificate) Renew(t testing.TB) {
	t.Helper()
	authority := webtest.NewCA(t, c.dir, "authority")
	c.CAFile = authority.File
	c.CertFile, c.KeyFile = authority.Issue(t, "nomad")
}

// CopyTo overwrites the files of a different certificate.
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
