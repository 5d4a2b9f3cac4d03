package compose

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
)

// BenchmarkComposeSnapshot reads 30 services of 10 containers each, none of which
// changes: the cost of a round apart from the engine's own.
func BenchmarkComposeSnapshot(b *testing.B) {
	i := newImitation(b)
	var refs []targets.Ref
	for n := range 30 {
		s := service{project: "shop", name: fmt.Sprintf("svc-%d", n), healthcheck: true}
		i.up(s, 10)
		refs = append(refs, ref("shop/"+s.name))
	}
	old := time.Now().Add(-100 * time.Hour)
	i.with(func() {
		for _, c := range i.containers {
			c.created, c.started, c.State.StartedAt = old, old, old.UTC().Format(time.RFC3339Nano)
		}
	})
	// The engine's part is a text that is ready.
	recorded := httptest.NewRecorder()
	i.list(recorded, httptest.NewRequest(http.MethodGet, "/containers/json", http.NoBody))
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if strings.HasSuffix(r.URL.Path, "/containers/json") {
			_, _ = w.Write(recorded.Body.Bytes())
			return
		}
		i.ServeHTTP(w, r)
	}))
	b.Cleanup(server.Close)
	config := &Config{Config: docker.Config{
		Host: "tcp://" + server.Listener.Addr().String(), ResourceInterval: time.Minute, Timeout: 10 * time.Second,
	}, StoreSecrets: new(bool)}
	config.SetDefaults()
	f := openFleet(b, config, &targettest.Store{})
	round := func() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil {
			b.Fatal(err)
		}
		for r, reading := range readings {
			if reading.Err != nil || reading.SpecReplicas != 10 || len(reading.Instances) != 10 {
				b.Fatalf("%s: %d replicas, %d instances, %v", r, reading.SpecReplicas, len(reading.Instances), reading.Err)
			}
		}
	}
	round() // the first one learns the containers
	first := calls.Swap(0)
	before := cpuNanoseconds(b)
	b.ReportAllocs()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/300, "cpu-ns/container")
	b.ReportMetric(float64(calls.Load())/float64(b.N), "calls/op")
	b.ReportMetric(float64(first), "calls/first-op")
}

// cpuNanoseconds returns the cpu time of this process, the imitation's included.
func cpuNanoseconds(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
