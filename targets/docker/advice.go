package docker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// tlsRequired is part of a TLS server's response to plain HTTP.
const tlsRequired = "HTTP request to an HTTPS server"

// advise adds a remedy to a connection error. If ssh has exited, its output replaces the error.
func (e *Engine) advise(err error) error {
	if ended := (*sshError)(nil); errors.As(err, &ended) {
		return fmt.Errorf("%s; %s", ended.problem(), ended.advice(e.config.Host))
	}
	if advice := e.adviceTLS(err); advice != "" {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// adviceTLS returns the remedy for a TLS error, or "" for other errors.
func (e *Engine) adviceTLS(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		failed  *net.OpError
	)
	used := e.config.usedTLS()
	switch {
	case e.config.scheme() != "tcp":
		return ""
	case used == nil:
		if strings.Contains(err.Error(), tlsRequired) {
			return "the engine requires TLS: add a tls table with ca_file, cert_file and key_file"
		}
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the engine does not use TLS: remove the tls table, or start the engine with --tlsverify"
	case errors.As(err, &unknown) && used.CAFile == "":
		return "set tls.ca_file to the CA of the engine's certificate"
	case errors.As(err, &unknown):
		return fmt.Sprintf("tls.ca_file %q is not the CA of the engine's certificate", used.CAFile)
	case errors.As(err, &name):
		return "set tls.server_name to a name in the engine's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the engine needs a new certificate, or a clock is wrong"
	case errors.As(err, &failed) && failed.Op == "remote error" && strings.Contains(failed.Err.Error(), "certificate"):
		return e.adviceCertificate()
	}
	return ""
}

// adviceCertificate returns the remedy if the engine rejects hpad's certificate.
func (e *Engine) adviceCertificate() string {
	used := e.config.usedTLS()
	if used.CertFile == "" {
		return "the engine requires a client certificate: set tls.cert_file and tls.key_file"
	}
	if pair, err := tls.LoadX509KeyPair(used.CertFile, used.KeyFile); err == nil && time.Now().After(pair.Leaf.NotAfter) {
		return fmt.Sprintf("the certificate in tls.cert_file %q expired at %s: renew it", used.CertFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the engine rejects the certificate in tls.cert_file %q: it must be issued by a CA that the engine trusts (--tlscacert)", used.CertFile)
}
