// Package ports finds addresses for servers that tests start.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports are chosen between these: below those that the system gives to connections, one of
// which might take a port before its server does, and below those that Nomad gives to jobs.
const first, last = 10_000, 19_999

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// Free returns a loopback address that nobody listens at, for one server, which is to
// listen soon. This process gets each once.
func Free(t testing.TB) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	var err error
	for range 100 {
		port := first + rand.IntN(last-first+1)
		if given[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			given[port] = true
			return address
		}
	}
	t.Fatalf("find a free port from %d to %d: %v", first, last, err)
	return ""
}
