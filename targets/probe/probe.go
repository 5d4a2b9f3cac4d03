// Package probe asks instances whether they are ready, for the kinds of fleets
// whose platform does not.
package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// TCP answers nil when an address of the form host:port takes a connection, and
// else why it does not. It waits as long as ctx.
func TCP(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// transport follows no redirect, asks no proxy and keeps no connection.
var transport = &http.Transport{DisableKeepAlives: true}

// most is how much of an answer is read, in bytes, so that the instance sees no
// reset.
const most = 10 << 10

// HTTP answers nil when getting a URL is answered with a status from 200 to 399,
// and else why it is not. It waits as long as ctx.
func HTTP(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "hpad-probe")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, most)
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}
