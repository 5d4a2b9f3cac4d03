package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/ticks"
)

// peak returns the growth of the heap during do, including garbage, sampled every millisecond. Only
// do is timed.
func peak(b *testing.B, do func()) (bytes uint64) {
	b.StopTimer()
	defer b.StartTimer()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	now := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := heap()
	stop, highest := make(chan struct{}), make(chan uint64)
	go func() {
		most := uint64(0)
		for {
			most = max(most, now())
			select {
			case <-stop:
				highest <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	b.StartTimer()
	do()
	b.StopTimer()
	close(stop)
	return max(<-highest, before) - before
}

// BenchmarkAPI measures listing n autoscalers, including the client, and scraping the metrics, both
// over the socket.
func BenchmarkAPI(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		d, rounds := benchDaemon(b, n)
		now := ticks.Last(time.Now(), 15*time.Second)
		for i := range 3 {
			rounds(now.Add(time.Duration(i-3) * 15 * time.Second))
		}
		socket := serveBench(b, d)
		client := api.NewClient(socket)
		b.Run(fmt.Sprintf("list/%d", n), func(b *testing.B) {
			var held uint64
			for b.Loop() {
				held = max(held, peak(b, func() {
					listed := 0
					for _, err := range client.EachAutoscaler(b.Context()) {
						if err != nil {
							b.Fatal(err)
						}
						listed++
					}
					if listed != n {
						b.Fatalf("%d autoscalers, want %d", listed, n)
					}
				}))
			}
			b.ReportMetric(float64(held), "peak-B")
		})
		transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
		for _, format := range []struct{ name, accept, encoding string }{
			{"gzip", text, "gzip"}, {"identity", text, "identity"},
		} {
			b.Run(fmt.Sprintf("scrape/%s/%d", format.name, n), func(b *testing.B) {
				var held uint64
				var size int64
				for b.Loop() {
					held = max(held, peak(b, func() { size = scrape(b, transport, format.accept, format.encoding) }))
				}
				b.ReportMetric(float64(held), "peak-B")
				b.ReportMetric(float64(size), "bytes-sent")
			})
		}
	}
}

const text = "text/plain;version=0.0.4"

// scrape returns the size of the metrics in bytes.
func scrape(b *testing.B, transport http.RoundTripper, accept, encoding string) int64 {
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://hpad/metrics", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", encoding)
	response, err := transport.RoundTrip(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	size, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("status %d: %v", response.StatusCode, err)
	}
	return size
}

// serveBench serves a daemon on a socket until the benchmark ends.
func serveBench(b *testing.B, d *Daemon) (socket string) {
	dir, err := os.MkdirTemp("", "hpad")
	if err != nil {
		b.Fatal(err)
	}
	socket = filepath.Join(dir, "hpad.sock")
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		b.Fatal(err)
	}
	server := api.NewServer(api.NewHandler(d, d.env.Metrics.Exposition(prometheus.NewRegistry()), api.Full), nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	b.Cleanup(func() {
		_ = server.Close()
		<-served
		_ = os.RemoveAll(dir)
	})
	return socket
}
