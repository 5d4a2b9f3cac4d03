package dockertest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Relay forwards a loopback address to an address in the engine's network until the test ends.
func (e *Engine) Relay(t testing.TB, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return // closed when the test ends
			}
			connections.Go(func() { e.relay(t, here, address) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.Wait()
	})
	return listener.Addr().String()
}

// relay forwards a connection until either end closes it or the test ends.
func (e *Engine) relay(t testing.TB, here net.Conn, address string) {
	defer func() { _ = here.Close() }()
	there, err := e.Dial(t.Context(), "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = there.Close() }()
	done := make(chan struct{})
	var once sync.Once
	forward := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		once.Do(func() { close(done) })
	}
	var both sync.WaitGroup
	both.Go(func() { forward(here, there) })
	both.Go(func() { forward(there, here) })
	select {
	case <-done:
	case <-t.Context().Done():
	}
	_, _ = here.Close(), there.Close()
	both.Wait()
}
