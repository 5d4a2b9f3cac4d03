// Package probe tests the readiness of instances, for platforms without readiness probes.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/hpad/hpad/settings/httpclient"
)

// TCP returns an error unless an address of the form host:port accepts a connection
// before ctx ends.
func TCP(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, httpclient.Cause(err))
	}
	return conn.Close()
}

// transport uses no proxy, and closes each connection.
var transport = &http.Transport{DisableKeepAlives: true}

// maxBody is the maximum number of response bytes that a probe reads, so that the connection is not
// reset.
const maxBody = 10 << 10

// HTTP returns an error unless a GET of a URL has a status from 200 to 399 before ctx
// ends.
func HTTP(ctx context.Context, url string) error {
	if err := get(ctx, url); err != nil {
		return fmt.Errorf("GET %s: %w", url, httpclient.Cause(err))
	}
	return nil
}

func get(ctx context.Context, url string) error {
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
	_, _ = io.CopyN(io.Discard, response.Body, maxBody)
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return errors.New(strconv.Itoa(response.StatusCode))
	}
	return nil
}
