package nomad

import (
	"net"
	"net/http"
	"net/url"
)

// transporter makes calls for the client of Nomad's API, and sees to what that leaves
// out of their responses.
type transporter struct {
	*http.Transport
	// near means that the agent is on this machine, where compressing a response costs
	// more than sending it.
	near bool
}

// near reports whether an address is of this machine.
func near(address *url.URL) bool {
	ip := net.ParseIP(address.Hostname())
	return address.Scheme == "unix" || address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// RoundTrip makes a call.
func (t *transporter) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.near {
		request = request.Clone(request.Context())
		request.Header.Del("Accept-Encoding")
	}
	response, err := t.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	unzip(response)
	if err := throttled(response); err != nil {
		return nil, err
	}
	noteReply(request, response)
	return response, nil
}
