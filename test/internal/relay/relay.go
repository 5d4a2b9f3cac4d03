// Package relay forwards TCP connections and simulates network failures.
package relay

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Relay forwards connections to a server. It can drop data without closing the connections, like a
// network failure.
type Relay struct {
	// URL is the address of the relay, with the scheme of the server's URL, for example
	// "http://127.0.0.1:41234".
	URL string

	to       string
	listener net.Listener
	mu       sync.Mutex
	there    bool              // drop data to the server
	back     bool              // drop data from the server
	open     map[net.Conn]bool // true if data of the connection has been dropped
	all      sync.WaitGroup
}

// New starts a relay to the server at a URL. The relay runs until the test ends.
func New(t testing.TB, url string) *Relay {
	t.Helper()
	scheme, to, _ := strings.Cut(url, "://")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{
		URL: scheme + "://" + listener.Addr().String(), to: to,
		listener: listener, open: map[net.Conn]bool{},
	}
	r.all.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// Drop sets whether data to the server and data from it are dropped. If both are false, it closes
// the connections that have lost data.
func (r *Relay) Drop(there, back bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.there, r.back = there, back
	for conn, lacks := range r.open {
		if lacks && !there && !back {
			_ = conn.Close()
		}
	}
}

// Reset closes all connections. The relay continues to accept new ones.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Close()
	}
}

func (r *Relay) accept() {
	for {
		here, err := r.listener.Accept()
		if err != nil {
			return // the test has ended
		}
		there, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = here.Close()
			continue
		}
		r.mu.Lock()
		r.open[here], r.open[there] = false, false
		r.mu.Unlock()
		r.all.Go(func() { r.carry(there, here, &r.there) })
		r.all.Go(func() { r.carry(here, there, &r.back) })
	}
}

// carry copies data until either side closes the connection. After a loss it copies no more data,
// because the stream is incomplete.
func (r *Relay) carry(to, from net.Conn, dropped *bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, from)
	}()
	buffer := make([]byte, 32<<10)
	for cut := false; ; {
		n, err := from.Read(buffer)
		r.mu.Lock()
		if cut = cut || *dropped; cut {
			r.open[from] = true
		}
		r.mu.Unlock()
		if n > 0 && !cut {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *Relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}
