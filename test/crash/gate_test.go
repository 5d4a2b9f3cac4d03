package crash

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/hpad/hpad/test/wait"
)

// gate is a proxy in front of a cloud. It completes each forwarded call even if the caller
// disconnects. It counts the calls that remove instances, and can delay or drop such a call.
type gate struct {
	URL string

	// victims returns the instances that a call removes.
	victims func(r *http.Request, body []byte) []string
	forward *httputil.ReverseProxy

	mu   sync.Mutex
	next held
	// removals maps each instance to the number of removal calls for it.
	removals map[string]int
	arrived  chan struct{}
	opened   chan struct{}
	open     func()
}

// held selects how the gate handles the next removal call.
type held string

const (
	// passed forwards the call and returns its response.
	passed held = ""
	// unanswered forwards the call, and delays the response until the gate is opened.
	unanswered held = "unanswered"
	// late forwards the call when the gate is opened, even if the caller has disconnected.
	late held = "late"
	// lost never forwards the call and sends no response.
	lost held = "lost"
)

func newGate(t *testing.T, cloud string, victims func(r *http.Request, body []byte) []string) *gate {
	t.Helper()
	backend, err := url.Parse(cloud)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{victims: victims, removals: map[string]int{}, arrived: make(chan struct{}, 1), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	server := httptest.NewUnstartedServer(g)
	if backend.Scheme == "https" {
		server.StartTLS()
	} else {
		server.Start()
	}
	g.URL = server.URL
	// All httptest servers use the same certificate, which this client trusts.
	g.forward = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(backend) }, Transport: server.Client().Transport}
	t.Cleanup(func() {
		g.open()
		server.CloseClientConnections()
		server.Close()
	})
	return g
}

// hold selects how the gate handles the next removal call. It does not affect later calls.
func (g *gate) hold(how held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = how
}

func (g *gate) await(t *testing.T) {
	t.Helper()
	wait.For(t, patience, "removal call", func() (string, bool) {
		select {
		case <-g.arrived:
			return "", true
		default:
			return "no call arrived", false
		}
	})
}

// taken returns the instances in removal calls, sorted, and the maximum number of calls for one
// instance.
func (g *gate) taken() (ids []string, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.removals {
		most = max(most, n)
	}
	return slices.Sorted(maps.Keys(g.removals)), most
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	how := g.take(g.victims(r, body))
	if how == late || how == lost {
		g.arrived <- struct{}{}
		<-g.opened
	}
	if how == lost {
		panic(http.ErrAbortHandler)
	}
	request := r.Clone(context.WithoutCancel(r.Context()))
	request.Body = io.NopCloser(bytes.NewReader(body))
	recorder := httptest.NewRecorder()
	g.forward.ServeHTTP(recorder, request)
	if how == unanswered {
		g.arrived <- struct{}{}
		<-g.opened
	}
	maps.Copy(w.Header(), recorder.Header())
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// take counts a call and returns how to handle it.
func (g *gate) take(victims []string) held {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range victims {
		g.removals[id]++
	}
	if len(victims) == 0 {
		return passed
	}
	how := g.next
	g.next = passed
	return how
}
