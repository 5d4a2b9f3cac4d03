package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	promconfig "github.com/prometheus/common/config"

	"github.com/hpad/hpad/settings/httpclient"
)

// Server contains the address of a daemon that serves TCP, and the client's credentials.
type Server struct {
	// URL is the daemon's address, such as "https://vm1:4720". If a proxy adds a path prefix, URL
	// includes it.
	URL string
	// CAFile is the path of a PEM file with the trusted CAs. If it is empty, the system's CAs are
	// used.
	CAFile string
	// CertFile and KeyFile are the paths of the client certificate and its key. They may be
	// empty.
	CertFile, KeyFile string
	// Username and the content of PasswordFile are sent as basic authentication. They may be
	// empty.
	Username, PasswordFile string
	// RequireTLS rejects a server to which the password would be sent without TLS, unless the
	// server is on this host.
	RequireTLS bool
}

// NewServerClient returns a client for a server. Every call returns an error if the fields are
// invalid.
func NewServerClient(s Server) *Client {
	client, err := newServerClient(s)
	if err != nil {
		return &Client{err: err}
	}
	return client
}

func newServerClient(s Server) (*Client, error) {
	base, err := s.base()
	if err != nil {
		return nil, &ReachError{Address: redactedURL(s.URL), Hint: `a server is a URL such as "https://vm1:4720"`, Err: err}
	}
	httpConfig := promconfig.HTTPClientConfig{
		// With HTTP/2, the error for a rejected client certificate does not contain the reason.
		EnableHTTP2: false,
		TLSConfig: promconfig.TLSConfig{
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, MinVersion: promconfig.TLSVersion(tls.VersionTLS12),
		},
	}
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return nil, &ReachError{
			Address: base, Err: errors.New("a client certificate requires a key, and a key requires a certificate"),
			Hint: "set both --cert-file and --key-file",
		}
	case (s.Username == "") != (s.PasswordFile == ""):
		return nil, &ReachError{
			Address: base, Err: errors.New("a user name requires a password, and a password requires a user name"),
			Hint: "set both --username and --password-file",
		}
	case s.Username != "":
		httpConfig.BasicAuth = &promconfig.BasicAuth{Username: s.Username, PasswordRef: s.PasswordFile}
	}
	if s.RequireTLS && s.ExposedTo() != "" {
		return nil, &ReachError{
			Address: base, Err: errors.New("the password is sent only over TLS, or to a loopback address"),
			Hint: "set ha.address of that member to its https address",
		}
	}
	for _, file := range []string{s.CAFile, s.CertFile, s.KeyFile, s.PasswordFile} {
		if err := readable(file); err != nil {
			return nil, &ReachError{Address: base, Err: err}
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	made, err := promconfig.NewClientFromConfig(httpConfig, "hpad", promconfig.WithKeepAlivesDisabled(), httpclient.Secrets, promconfig.WithDialContextFunc(dialer.DialContext))
	if err != nil {
		return nil, &ReachError{Address: base, Err: err}
	}
	made.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		address:     base,
		base:        base,
		username:    s.Username,
		http:        made,
		unreachable: func(err error) error { return unreachableServer(base, err) },
	}, nil
}

// ExposedTo returns the remote host to which a password is sent without TLS, or "" if there is
// none.
func (s Server) ExposedTo() string {
	if s.Username == "" || s.PasswordFile == "" {
		return ""
	}
	return httpclient.Exposed(s.URL)
}

func (s Server) base() (string, error) {
	address, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return "", errors.New("it is not a URL")
	case address.Scheme != "http" && address.Scheme != "https":
		return "", errors.New("it does not begin with http:// or https://")
	case address.Host == "":
		return "", errors.New("it has no host")
	case address.User != nil:
		return "", errors.New("it contains a user name: use --username and --password-file instead")
	case address.RawQuery != "" || address.Fragment != "":
		return "", errors.New("it contains a query or a fragment")
	}
	return strings.TrimSuffix(address.String(), "/"), nil
}

// redactedURL removes the user information from a string that may be a URL.
func redactedURL(text string) string {
	before, after, found := strings.Cut(text, "://")
	if at := strings.LastIndex(after, "@"); found && at >= 0 {
		return before + "://" + after[at+1:]
	}
	if !found && strings.Contains(text, "@") {
		return text[strings.LastIndex(text, "@")+1:]
	}
	return text
}

// readable returns the error from opening a file, or nil if name is empty.
func readable(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	return file.Close()
}

// Error texts of TLS alerts for which crypto/tls has no types. The server sends them if it rejects
// the client certificate or cannot use its web config.
const (
	remoteError         = "remote error"
	certificateRequired = "tls: certificate required"
	internalError       = "tls: internal error"
)

// webConfigHint is the hint for errors that an invalid web config on the server causes.
const webConfigHint = "the cause is on the server: \"hpad check\" on the server shows the error in its web config"

func unreachableServer(base string, err error) error {
	err = causeOf(err)
	return &ReachError{Address: base, Hint: serverHint(err), Err: err}
}

func serverHint(err error) string {
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == remoteError {
		switch alert.Err.Error() {
		case certificateRequired:
			return "the server requires a client certificate: set --cert-file and --key-file"
		case internalError:
			return webConfigHint
		}
		return "the server does not accept this client: the certificate must be a client certificate from client_ca_file of the server's web config, and not expired"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "if you trust the server's certificate, set --ca-file to its CA certificate"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		names := wrong.Certificate.DNSNames
		for _, ip := range wrong.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Sprintf("use a name from its certificate: %s", strings.Join(names, ", "))
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "check the server's certificate: openssl x509 -noout -dates -ext subjectAltName -in FILE"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "the server has no TLS: write http:// instead of https://"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is hpad running, and is daemon.listen this address?"
	case errors.Is(err, syscall.ECONNRESET):
		return "the server closed the connection: this client has too many connections, or the server is stopping"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "check the host name"
	}
	return ""
}
