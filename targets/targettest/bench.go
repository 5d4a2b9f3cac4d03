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

// Rounds repeats a round that reads so many instances, as a benchmark that ends with
// it, and reports what 1,000 of them cost: the processor time of this process and the
// time that a round takes, in milliseconds.
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

// Busy returns how long this process has kept processors busy.
func Busy(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Replay gives each request the response that the same one got before from Handler,
// so that an imitation in a benchmark's own process costs little more than sending: the
// same method, address and body. It is safe for concurrent use.
type Replay struct {
	Handler http.Handler
	// Complete adds to responses what the imitation leaves out and the platform sends, so
	// that they are of real size; nil for nothing.
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

// Rounds is the function Rounds, and reports also the calls of a round, those of them
// that Handler had to serve, and the bytes of responses for an instance.
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
