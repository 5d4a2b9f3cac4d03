package faults

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// misbehavior handles a request instead of the correct handler.
type misbehavior func(f *front, w http.ResponseWriter, r *http.Request)

// front is a server that forwards requests to a correct handler, or misbehaves. Its address never
// changes.
type front struct {
	t       testing.TB
	honest  http.Handler
	address string
	// tls contains a valid certificate (true) and an expired certificate (false). nil means plain
	// HTTP.
	tls map[bool]tls.Certificate

	mu      sync.Mutex
	server  *httptest.Server
	faulty  misbehavior
	expired bool
	// broken is the number of requests that a misbehavior handled.
	broken int
}

func newFront(t testing.TB, honest http.Handler) *front {
	t.Helper()
	f := &front{t: t, honest: honest}
	f.listen()
	t.Cleanup(f.close)
	return f
}

// listen starts the server. It always uses the address of the first start.
func (f *front) listen() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = listener.Addr().String()
	if f.tls != nil {
		listener = tls.NewListener(listener, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			certificate := f.tls[!f.expired]
			return &certificate, nil
		}})
	}
	f.server = &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: f, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), // clients disconnect on purpose
	}}
	f.server.Start()
}

func (f *front) close() {
	f.mu.Lock()
	server := f.server
	f.faulty = nil
	f.mu.Unlock()
	server.CloseClientConnections()
	server.Close()
}

// misbehave lets do handle all requests until the next call of heal.
func (f *front) misbehave(do misbehavior) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faulty = do
}

func (f *front) heal() { f.misbehave(nil) }

// hit returns the number of requests that a misbehavior has handled.
func (f *front) hit() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

func (f *front) url() string {
	if f.tls != nil {
		return "https://" + f.address
	}
	return "http://" + f.address
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	do := f.faulty
	if do != nil {
		f.broken++
	}
	f.mu.Unlock()
	if do != nil {
		do(f, w, r)
		return
	}
	f.honest.ServeHTTP(w, r)
}

// scales reports whether the request scales a Nomad job.
func scales(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/scale")
}

// hang never responds.
func hang(_ *front, _ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // without a read, the server does not notice that the client disconnects
	<-r.Context().Done()
}

// beginning returns the first bytes of a valid response.
func beginning(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		return `[{"ID":"shop-000000",` + strings.Repeat(" ", 60)
	}
	return `{"status":"success","data":{"resultType":"vector","result":[`
}

// reset sends part of a response and resets the connection.
func reset(_ *front, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000000")
	_, _ = fmt.Fprint(w, beginning(r))
	_ = http.NewResponseController(w).Flush()
	cut(w)
}

func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// trickle sends one byte per second.
func trickle(_ *front, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for _, b := range []byte(beginning(r)) {
		_, _ = w.Write([]byte{b})
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// respond returns a misbehavior that always sends the same response.
func respond(status int, kind, text string, headers ...string) misbehavior {
	return func(_ *front, w http.ResponseWriter, _ *http.Request) {
		for n := 0; n+1 < len(headers); n += 2 {
			w.Header().Set(headers[n], headers[n+1])
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, text)
	}
}

// loginPage is the response of a proxy that requires a login.
const loginPage = "<!doctype html><html><head><title>Sign in</title></head></html>"
