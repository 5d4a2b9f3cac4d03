package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"

	promconfig "github.com/prometheus/common/config"
)

// Server says where a daemon serves TCP, and how to prove to it who asks.
type Server struct {
	// URL is that of the daemon, as "https://vm1:4720", a path in front of the API's
	// included.
	URL string
	// CAFile has the authorities that may vouch for the daemon, in PEM form; empty
	// means those of the system.
	CAFile string
	// CertFile and KeyFile are the client's own certificate; empty means none.
	CertFile, KeyFile string
	// Username and the content of PasswordFile are what basic authentication sends;
	// empty means none.
	Username, PasswordFile string
}

// NewServerClient returns a client of the daemon that serves at a URL. What is
// wrong with the server's fields is the error of every call.
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
		return nil, &ReachError{Address: redactedURL(s.URL), Hint: `a server is written as "https://vm1:4720"`, Err: err}
	}
	httpConfig := promconfig.HTTPClientConfig{
		// HTTP/2 has errors of its own for a server that refuses a client after the
		// handshake, which say nothing of why.
		EnableHTTP2: false,
		TLSConfig: promconfig.TLSConfig{
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, MinVersion: promconfig.TLSVersion(tls.VersionTLS12),
		},
	}
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return nil, &ReachError{
			Address: base, Err: errors.New("a client certificate needs its key, and a key its certificate"),
			Hint: "give both --cert-file and --key-file",
		}
	case (s.Username == "") != (s.PasswordFile == ""):
		return nil, &ReachError{
			Address: base, Err: errors.New("a user name needs a password, and a password a user name"),
			Hint: "give both --username and --password-file",
		}
	case s.Username != "":
		httpConfig.BasicAuth = &promconfig.BasicAuth{Username: s.Username, PasswordFile: s.PasswordFile}
	}
	for _, file := range []string{s.CAFile, s.CertFile, s.KeyFile, s.PasswordFile} {
		if err := readable(file); err != nil {
			return nil, &ReachError{Address: base, Err: err}
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	made, err := promconfig.NewClientFromConfig(httpConfig, "hpad", promconfig.WithKeepAlivesDisabled(), promconfig.WithDialContextFunc(dialer.DialContext))
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

// ExposedTo returns the host to which a password goes without TLS and not within
// the machine; empty where none does.
func (s Server) ExposedTo() string {
	address, err := url.Parse(s.URL)
	if err != nil || address.Scheme != "http" || s.Username == "" || s.PasswordFile == "" {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return ""
	}
	return address.Host
}

func (s Server) base() (string, error) {
	address, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return "", errors.New("it is not a URL")
	case address.Scheme != "http" && address.Scheme != "https":
		return "", errors.New("it does not begin with http:// or https://")
	case address.Host == "":
		return "", errors.New("it names no host")
	case address.User != nil:
		return "", errors.New("it has a user name in it, which --username and --password-file are for")
	case address.RawQuery != "" || address.Fragment != "":
		return "", errors.New("it has more than a host and a path")
	}
	return strings.TrimSuffix(address.String(), "/"), nil
}

// redactedURL returns a URL without what may be a password.
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

// readable returns why a file cannot be read; an empty name is none.
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

// How crypto/tls reports that the server refused the certificate of the client, or
// that it cannot use its own web config: it has no type for it.
const (
	remoteError         = "remote error"
	certificateRequired = "tls: certificate required"
	internalError       = "tls: internal error"
)

// unreachableServer turns the failure of a request into a ReachError with a hint.
func unreachableServer(base string, err error) error {
	err = causeOf(err)
	return &ReachError{Address: base, Hint: serverHint(err), Err: err}
}

func serverHint(err error) string {
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == remoteError {
		switch alert.Err.Error() {
		case certificateRequired:
			return "the server wants a client certificate: give one with --cert-file and --key-file"
		case internalError:
			return "it is not this client's mistake: \"hpad check\" on the server says what is wrong with its web config"
		}
		return "the server does not accept this client: a certificate has to be of the authority in client_ca_file of the server's web config, for clients, and in date"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "if you trust the server's certificate, name its authority with --ca-file"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		names := wrong.Certificate.DNSNames
		for _, ip := range wrong.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Sprintf("ask for it by a name of its certificate: %s", strings.Join(names, ", "))
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "look at the server's certificate: openssl x509 -noout -dates -ext subjectAltName -in FILE"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "the server has no TLS: write http:// instead of https://"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is hpad running, and does daemon.listen have this address?"
	case errors.Is(err, syscall.ECONNRESET):
		return "the server closed the connection: it has too many of this client, or is about to end"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "no such host: look at the name"
	}
	return ""
}
