// Package traffic sends HTTP requests at a steady rate and counts the failed requests.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// Load sends requests until its test ends.
type Load struct {
	clients sync.WaitGroup
	count   atomic.Int64
	started time.Time

	mu     sync.Mutex
	failed []string
}

// clients is the number of clients. Each sends a request every 40 ms, so that together they send
// 250 requests per second. Every second client uses persistent connections.
const clients = 10

// Start sends requests to a URL. dial opens the connections; if it is nil, net/http's default
// dialer is used.
func Start(t testing.TB, url string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{started: time.Now()}
	t.Cleanup(func() {
		cancel()
		l.clients.Wait()
	})
	for i := range clients {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: i%2 == 0, DialContext: dial}}
		l.clients.Go(func() {
			defer client.CloseIdleConnections()
			for tick := time.NewTicker(40 * time.Millisecond); ; {
				select {
				case <-tick.C:
				case <-ctx.Done():
					tick.Stop()
					return
				}
				if err := Get(context.Background(), client, url); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Sprintf("after %v, client %d: %v", time.Since(l.started).Round(time.Millisecond), i, err))
					l.mu.Unlock()
				}
				l.count.Add(1)
			}
		})
	}
	return l
}

// Await waits for 200 more requests.
func (l *Load) Await(t testing.TB) {
	t.Helper()
	until := l.count.Load() + 200
	wait.For(t, world.Patience, "requests", func() (string, bool) { return fmt.Sprint(l.count.Load()), l.count.Load() >= until })
}

// Check runs a step and waits for 200 more requests. It fails the test if a request failed.
func (l *Load) Check(t testing.TB, step string, run func()) {
	t.Helper()
	before, started := l.count.Load(), time.Now()
	run()
	l.Await(t)
	count := l.count.Load() - before
	t.Logf("%s: %d requests in %v", step, count, time.Since(started).Round(time.Millisecond))
	l.mu.Lock()
	failed := l.failed
	l.failed = nil
	l.mu.Unlock()
	if len(failed) > 0 {
		t.Errorf("%s: %d of %d requests failed: %s", step, len(failed), count, strings.Join(failed[:min(3, len(failed))], "; "))
	}
}

// Get sends a request. It returns an error unless the status of the response is 200.
func Get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
