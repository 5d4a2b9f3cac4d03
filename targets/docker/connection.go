package docker

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/hpad/hpad/settings/httpclient"
)

// idleConnections limits the idle connections.
const idleConnections = 64

// link contains a client and the settings that it was created with.
type link struct {
	client    *client.Client
	transport *http.Transport
	// tls is nil if the link does not use TLS.
	tls *tls.Config
	// stamps identify the link's files, or newer files that cannot be used.
	stamps []httpclient.Stamp
}

// newLink returns a link with a client for one API version. It does not connect. When ctx ends,
// all connection attempts are canceled.
func newLink(ctx context.Context, c *Config, stamps []httpclient.Stamp, version string) (*link, error) {
	settings, err := tlsSettings(c)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(ctx, c, settings)
	if err != nil {
		return nil, err
	}
	talking, err := newClient(c, transport, version)
	if err != nil {
		return nil, err
	}
	return &link{client: talking, transport: transport, tls: settings, stamps: stamps}, nil
}

// newTransport returns a transport to an engine. settings is nil if the connection does not use
// TLS.
func newTransport(ctx context.Context, c *Config, settings *tls.Config) (*http.Transport, error) {
	transport := &http.Transport{
		TLSHandshakeTimeout: c.Timeout,
		TLSClientConfig:     settings,
		MaxConnsPerHost:     c.connections(),
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     30 * time.Second,
	}
	switch c.scheme() {
	case "ssh":
		helper, err := sshHelper(c)
		if err != nil {
			return nil, err
		}
		transport.DialContext = (&sshDialer{life: ctx, timeout: c.Timeout, start: helper.Dialer}).dial
	case "unix":
		path := strings.TrimPrefix(c.Host, "unix://")
		transport.DisableCompression = true
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: c.Timeout}).DialContext(ctx, "unix", path)
		}
	default:
		transport.Proxy = http.ProxyFromEnvironment
		transport.DialContext = (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return transport, nil
}

func newClient(c *Config, transport *http.Transport, version string) (*client.Client, error) {
	options := []client.Opt{client.WithVersion(version), client.WithUserAgent("hpad")}
	if c.scheme() == "ssh" {
		helper, err := sshHelper(c)
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithHost(helper.Host))
	} else {
		options = append(options, client.WithHost(c.Host))
	}
	if transport.TLSClientConfig != nil {
		options = append(options, client.WithScheme("https"))
	}
	// Replaces the client's own transport.
	options = append(options, client.WithHTTPClient(&http.Client{Transport: verbatim{transport}, CheckRedirect: client.CheckRedirect}))
	return client.NewClientWithOpts(options...)
}

func (c *Config) scheme() string {
	scheme, _, _ := strings.Cut(c.Host, "://")
	return scheme
}

// usedTLS returns the TLS settings, or nil if the connection does not use TLS.
func (c *Config) usedTLS() *httpclient.TLS {
	if c.scheme() != "tcp" {
		return nil
	}
	return c.TLS
}

// stamps returns the stamps of all files that a link uses.
func (c *Config) stamps() []httpclient.Stamp {
	t := c.usedTLS()
	if t == nil {
		return nil
	}
	return httpclient.StampFiles(t.CAFile, t.CertFile, t.KeyFile)
}

// tlsSettings returns nil if the connection does not use TLS.
func tlsSettings(c *Config) (*tls.Config, error) {
	t := c.usedTLS()
	if t == nil {
		return nil, nil
	}
	settings, err := tlsconfig.Client(tlsconfig.Options{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, InsecureSkipVerify: t.InsecureSkipVerify, ExclusiveRootPools: true,
	})
	if err != nil {
		return nil, fmt.Errorf("set up TLS with ca_file %q, cert_file %q and key_file %q: %w", t.CAFile, t.CertFile, t.KeyFile, err)
	}
	settings.ServerName = t.ServerName
	return settings, nil
}

// verbatim replaces the body of a request with the document from WithBody.
type verbatim struct{ *http.Transport }

type bodyKey struct{}

// WithBody returns a context for a call that sends this document instead of its own body. The
// client's types would drop unknown fields.
func WithBody(ctx context.Context, document []byte) context.Context {
	return context.WithValue(ctx, bodyKey{}, document)
}

// RoundTrip sends a request.
func (v verbatim) RoundTrip(r *http.Request) (*http.Response, error) {
	document, ok := r.Context().Value(bodyKey{}).([]byte)
	if !ok || r.Body == nil {
		return v.Transport.RoundTrip(r)
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(document)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(document))
	return v.Transport.RoundTrip(r)
}
