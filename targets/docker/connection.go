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
	"github.com/prometheus/common/config"

	"github.com/hpad/hpad/settings/httpclient"
)

// idleConnections is the maximum number of idle connections to an engine.
const idleConnections = 64

// newTransport returns a transport to an engine. It does not connect. When ctx ends, connection
// attempts over ssh are canceled.
func newTransport(ctx context.Context, c *Config) (http.RoundTripper, error) {
	transport := &http.Transport{
		TLSHandshakeTimeout: c.Timeout,
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
	if t := c.usedTLS(); t != nil {
		return secured(transport, t)
	}
	return transport, nil
}

// secured returns a transport that uses TLS. It reads the files again after they have changed.
func secured(transport *http.Transport, t *httpclient.TLS) (http.RoundTripper, error) {
	options := config.TLSConfig{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify,
	}
	settings, err := config.NewTLSConfig(&options)
	if err != nil {
		return nil, fmt.Errorf("set up TLS with ca_file %q, cert_file %q and key_file %q: %w", t.CAFile, t.CertFile, t.KeyFile, err)
	}
	var files config.TLSRoundTripperSettings
	if t.CAFile != "" {
		files.CA = config.NewFileSecret(t.CAFile)
	}
	if t.CertFile != "" {
		files.Cert, files.Key = config.NewFileSecret(t.CertFile), config.NewFileSecret(t.KeyFile)
	}
	return config.NewTLSRoundTripper(settings, files, func(settings *tls.Config) (http.RoundTripper, error) {
		next := transport.Clone()
		next.TLSClientConfig = settings
		return next, nil
	})
}

// newClient returns a client for one API version.
func newClient(c *Config, transport http.RoundTripper, version string) (*client.Client, error) {
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
	if c.usedTLS() != nil {
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

// verbatim replaces the body of a request with the document from WithBody.
type verbatim struct{ next http.RoundTripper }

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
		return v.next.RoundTrip(r)
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(document)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(document))
	return v.next.RoundTrip(r)
}
