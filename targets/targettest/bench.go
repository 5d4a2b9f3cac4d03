package targettest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Rounds runs round repeatedly until the benchmark b ends. It reports the CPU time of this process
// and the elapsed time per 1,000 instances, in milliseconds; instances is the number that each
// round reads.
func Rounds(b *testing.B, instances int, round func()) {
	b.Helper()
	b.ReportAllocs()
	before := Busy(b)
	for b.Loop() {
		round()
	}
	for unit, spent := range map[string]time.Duration{"cpu-ms/1000": Busy(b) - before, "wall-ms/1000": b.Elapsed()} {
		b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/float64(instances), unit)
	}
}

// Busy returns the CPU time that this process has used.
func Busy(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Replay stores the responses of Handler and returns them for later requests with the same method,
// address and body, so that a fake server in the benchmark's own process needs little CPU time. It
// is safe for concurrent use.
type Replay struct {
	Handler http.Handler
	// Complete adds the fields that the platform sends and the fake server omits, so that
	// responses have a realistic size. If nil, responses are not changed.
	Complete *strings.Replacer

	mu        sync.Mutex
	responses map[string]*httptest.ResponseRecorder
	calls     int
	made      int
	sent      int64
}

// ServeHTTP implements http.Handler.
func (p *Replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	key := r.Method + " " + r.URL.String() + "\n" + string(body)
	p.mu.Lock()
	known := p.responses[key]
	p.mu.Unlock()
	made := 0
	if known == nil {
		made, known = 1, httptest.NewRecorder()
		p.Handler.ServeHTTP(known, r)
		if p.Complete != nil {
			known.Body = bytes.NewBufferString(p.Complete.Replace(known.Body.String()))
		}
	}
	p.mu.Lock()
	if p.responses == nil {
		p.responses = map[string]*httptest.ResponseRecorder{}
	}
	p.responses[key] = known
	p.calls++
	p.made += made
	p.sent += int64(known.Body.Len())
	p.mu.Unlock()
	maps.Copy(w.Header(), known.Header())
	w.WriteHeader(known.Code)
	_, _ = w.Write(known.Body.Bytes())
}

// Rounds is like the function Rounds. It also reports the calls per round, how many of them
// Handler served, and the response bytes per instance.
func (p *Replay) Rounds(b *testing.B, instances int, round func()) {
	b.Helper()
	p.mu.Lock()
	p.calls, p.made, p.sent = 0, 0, 0
	p.mu.Unlock()
	Rounds(b, instances, round)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.ReportMetric(float64(p.calls)/float64(b.N), "calls/op")
	b.ReportMetric(float64(p.made)/float64(b.N), "made/op")
	b.ReportMetric(float64(p.sent)/float64(b.N)/float64(instances), "B/instance")
}
