package docker

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/docker/docker/client"
)

// sayingTLS is in the response of a server that speaks TLS to a client that does not.
const sayingTLS = "HTTP request to an HTTPS server"

// unreached is the client's error of an engine that nothing reaches, without its host,
// which is said before it.
type unreached struct {
	error
	host string
}

// Error returns the client's words.
func (e unreached) Error() string { return strings.Replace(e.error.Error(), " at "+e.host, "", 1) }

// Unwrap returns the client's error.
func (e unreached) Unwrap() error { return e.error }

// advise adds to an error of the connection what is to be done about it. Of an ssh that
// has ended only its own words are kept.
func (e *Engine) advise(err error) error {
	if ended := (*sshError)(nil); errors.As(err, &ended) {
		return fmt.Errorf("%s; %s", ended.words(), ended.advice(e.config.Host))
	}
	if client.IsErrConnectionFailed(err) {
		err = unreached{err, e.config.Host}
	}
	if advice := e.adviceTLS(err); advice != "" {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	if unusable := e.unusable.Load(); unusable != nil && lost(err) {
		err = fmt.Errorf("%w; its files have changed and cannot be used: %w", err, *unusable)
	}
	return err
}

// adviceTLS returns what is to be done about an error of TLS; "" when it is none.
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
		if strings.Contains(err.Error(), sayingTLS) {
			return "the engine speaks TLS: give the fleet a tls table with ca_file, cert_file and key_file"
		}
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the engine does not speak TLS: leave out the tls table, or start the engine with --tlsverify"
	case errors.As(err, &unknown) && used.CAFile == "":
		return "tls.ca_file has to name the authority of the engine's certificate"
	case errors.As(err, &unknown):
		return fmt.Sprintf("the authority in tls.ca_file %q is not the one of the engine's certificate", used.CAFile)
	case errors.As(err, &name):
		return "tls.server_name has to be a name that the engine's certificate is for"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the engine needs a new certificate, or a clock is wrong"
	case errors.As(err, &failed) && failed.Op == "remote error" && strings.Contains(failed.Err.Error(), "certificate"):
		return e.adviceCertificate()
	}
	return ""
}

// adviceCertificate returns what is to be done where the engine rejects hpad's
// certificate.
func (e *Engine) adviceCertificate() string {
	used, settings := e.config.usedTLS(), e.link.Load().tls
	if used.CertFile == "" {
		return "the engine wants a certificate: set tls.cert_file and tls.key_file to one of the authority that the engine trusts"
	}
	if len(settings.Certificates) > 0 {
		if leaf := settings.Certificates[0].Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
			return fmt.Sprintf("the certificate in tls.cert_file %q has expired at %s: renew it", used.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return fmt.Sprintf("the engine refuses the certificate in tls.cert_file %q: it has to be of the authority that the engine trusts (--tlscacert)", used.CertFile)
}
