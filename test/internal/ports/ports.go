// Package ports finds free ports for servers in tests.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

const first, last = 10_000, 19_999

// claims are abstract Unix sockets, one for each port of this process. They exclude other
// processes.
var (
	mu     sync.Mutex
	claims []net.Listener
)

// Free returns an unused loopback address.
func Free(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}

// Port returns a free port. No other test or process gets the same port while this process
// runs.
func Port(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	var err error
	for range 100 {
		port := first + rand.IntN(last-first+1)
		var claim, listener net.Listener
		if claim, err = net.Listen("unix", fmt.Sprintf("@hpad-test-port-%d", port)); err != nil {
			continue
		}
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = listener.Close()
			claims = append(claims, claim)
			return port
		}
		_ = claim.Close()
	}
	t.Fatalf("find a free port from %d to %d: %v", first, last, err)
	return 0
}
