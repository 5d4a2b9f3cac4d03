// Package ports finds free ports for servers in tests.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Limits of the ports that this package returns. They are below Nomad's dynamic ports and below the
// kernel's ephemeral ports, which a connection could use before the server does.
const first, last = 10_000, 19_999

// claims are abstract Unix sockets, one for each port that this process has reserved. They prevent
// other test processes from reserving the same port.
var (
	mu     sync.Mutex
	claims []net.Listener
)

// Free returns a free loopback address for one server.
func Free(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}

// Port returns a free port. While this process runs, no other test or process gets the same port.
func Port(t testing.TB) int {
	t.Helper()
	return Block(t, 1)
}

// Block is like Port, but reserves count consecutive ports and returns the first one.
func Block(t testing.TB, count int) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range 100 {
		start := first + rand.IntN(last-first+2-count)
		claimed, free := claim(start, count)
		if free {
			claims = append(claims, claimed...)
			return start
		}
		for _, listener := range claimed {
			_ = listener.Close()
		}
	}
	t.Fatalf("found no %d consecutive free ports from %d to %d", count, first, last)
	return 0
}

func claim(start, count int) (claimed []net.Listener, free bool) {
	for port := start; port < start+count; port++ {
		reserved, err := net.Listen("unix", fmt.Sprintf("@hpad-test-port-%d", port))
		if err != nil {
			return claimed, false
		}
		claimed = append(claimed, reserved)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return claimed, false
		}
		_ = listener.Close()
	}
	return claimed, true
}
