package api

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// dialReading dials connections whose reads return how they ended.
func dialReading(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return readingConn{conn}, nil
	}
}

// readingConn takes what is written after the server has closed for written. A
// server says why it refuses a client by an alert just before it closes, while the
// client writes already: the failed write would be the error, and the alert that is
// there to be read would not. Reads of a closed connection end at once.
type readingConn struct{ net.Conn }

func (c readingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(b), nil
	}
	return n, err
}
