package nomad

import (
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/hpad/hpad/targets"
)

// transporter sends requests for the client of Nomad's API, which drops the headers of
// pages and the Retry-After of a rejection.
type transporter struct {
	*http.Transport
	// near means that the agent is on this host, where compressing a response costs
	// more than sending it.
	near bool
}

// near reports whether an address is on this host.
func near(address *url.URL) bool {
	ip := net.ParseIP(address.Hostname())
	return address.Scheme == "unix" || address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// RoundTrip sends a request. It stores the headers of the response in the *headers of the
// request's context, if it has one.
func (t *transporter) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.near {
		request = request.Clone(request.Context())
		request.Header.Del("Accept-Encoding")
	}
	response, err := t.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := throttled(response); err != nil {
		return nil, err
	}
	if h, ok := request.Context().Value(headersKey{}).(*headers); ok {
		*h = headersOf(response.Header)
	}
	return response, nil
}

// longestRefusal is the number of bytes of a rejection that are read.
const longestRefusal = 4 << 10

// throttled returns a [targets.ThrottledError] for a 429 response with a Retry-After
// header, and closes it; nil for any other. Nomad never sends one; a proxy may.
func throttled(response *http.Response) error {
	if response.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	wait := targets.RetryAfter(response.Header)
	if wait == 0 {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal)) // an incomplete text is enough
	return &targets.ThrottledError{RetryAfter: wait, Err: &answerError{status: response.StatusCode, body: string(body)}}
}
