package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/test/wait"
)

func TestBodies(t *testing.T) {
	large := strings.Repeat("x", 64<<10+1)
	for _, test := range []struct {
		name, media, body string
		unsized           bool
		want              int
		wantType          string
	}{
		{"none", "", "", false, 200, ""},
		{"no body, type of a form", "application/x-www-form-urlencoded", "", false, 200, ""},
		{"JSON", "application/json", "{}", false, 200, ""},
		{"JSON with a charset", "application/json; charset=utf-8", "{}", false, 200, ""},
		{"a form", "application/x-www-form-urlencoded", "a=b", false, 415, "unsupported_media_type"},
		{"text", "text/plain", "{}", false, 415, "unsupported_media_type"},
		{"no type", "", "{}", false, 415, "unsupported_media_type"},
		{"too large", "application/json", large, false, 413, "too_large"},
		{"too large without a declared length", "application/json", large, true, 413, "too_large"},
		{"maximum size", "application/json", large[1:], false, 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := twoAutoscalers()
			var body io.Reader = strings.NewReader(test.body)
			if test.unsized {
				body = io.MultiReader(body)
			}
			request := httptest.NewRequest(http.MethodPost, "/-/reload", body)
			if test.media != "" {
				request.Header.Set("Content-Type", test.media)
			}
			response := send(t, d, api.Full, request)
			a := open(t, response)
			if response.Code != test.want || a.ErrorType != test.wantType {
				t.Errorf("got status %d, envelope %+v; want %d %q", response.Code, a, test.want, test.wantType)
			}
			if (d.Reloads == 1) != (test.want == 200) {
				t.Errorf("reloads = %d", d.Reloads)
			}
		})
	}
	// A read rejects a body with a large declared length, and ignores any other body.
	if response := send(t, twoAutoscalers(), api.ReadOnly, httptest.NewRequest(http.MethodGet, "/-/ready", strings.NewReader(large))); response.Code != 413 {
		t.Errorf("status of a read with a large body = %d, want 413", response.Code)
	}
}

// TestHosts checks that DNS rebinding is prevented.
func TestHosts(t *testing.T) {
	for host, want := range map[string]int{
		"127.0.0.1:4720":        200,
		"127.0.0.1":             200,
		"[::1]:4720":            200,
		"[::1]":                 200,
		"192.0.2.7:80":          200,
		"localhost:4720":        200,
		"LOCALHOST.":            200,
		"hpad.localhost":        200,
		"":                      200,
		"hpad.example.com":      200,
		"hpad.example.com:443":  200,
		"Hpad.Example.com.":     200,
		"example.com":           403,
		"evil.example":          403,
		"evil.example:4720":     403,
		"localhost.evil.net":    403,
		"127.0.0.1.evil.net":    403,
		"xhpad.example.com":     403,
		"hpad.example.com.evil": 403,
	} {
		request := httptest.NewRequest(http.MethodGet, "/-/ready", nil)
		request.Host = host
		response := httptest.NewRecorder()
		handler := api.NewHandler(&apitest.Daemon{State: api.Readiness{Ready: true}}, prometheus.NewRegistry(), api.ReadOnly)
		api.CheckHosts([]string{"hpad.example.com"}, handler).ServeHTTP(response, request)
		checkResponse(t, request, response)
		if response.Code != want {
			t.Errorf("status for host %q = %d, want %d", host, response.Code, want)
		}
	}
}

const one, other = "192.0.2.1:1000", "192.0.2.2:1000"

// held is a blocking handler behind the limits on requests. It blocks until end is called.
type held struct {
	t       *testing.T
	handler http.Handler
	letGo   chan struct{}
	group   sync.WaitGroup
}

// hold returns a held handler, with wrap between the limits and the blocking handler.
func hold(t *testing.T, wrap func(http.Handler) http.Handler) *held {
	h := &held{t: t, letGo: make(chan struct{})}
	h.handler = new(api.Clients).Limit(wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-h.letGo })))
	return h
}

func unwrapped(handler http.Handler) http.Handler { return handler }

// send sends a request, with a password unless it is empty. It checks the response if the request
// is above a limit.
func (h *held) send(from, password string) int {
	h.t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.RemoteAddr = from
	if password != "" {
		request.SetBasicAuth("alice", password)
	}
	response := httptest.NewRecorder()
	h.handler.ServeHTTP(response, request)
	if response.Code == http.StatusTooManyRequests {
		checkResponse(h.t, request, response)
		if a := open(h.t, response); a.ErrorType != "too_many_requests" || a.Error == "" || response.Header().Get("Retry-After") != "1" {
			h.t.Errorf("got envelope %+v, Retry-After %q; want too_many_requests and 1", a, response.Header().Get("Retry-After"))
		}
	}
	return response.Code
}

// begin sends requests that block.
func (h *held) begin(count int, from, password string) {
	for range count {
		h.group.Go(func() {
			if got := h.send(from, password); got != http.StatusOK {
				h.t.Errorf("status of a request from %s below the limit = %d, want 200", from, got)
			}
		})
	}
	synctest.Wait()
}

func (h *held) end() {
	close(h.letGo)
	h.group.Wait()
}

// TestRequestsAtOnce checks that the number of concurrent requests per client is limited, and that
// all addresses of an IPv6 network count as one client.
func TestRequestsAtOnce(t *testing.T) {
	for _, test := range []struct{ first, same, other string }{
		{one, "192.0.2.1:2000", other},
		{one, "[::ffff:192.0.2.1]:1000", "[2001:db8::1]:1000"},
		{"[2001:db8::1]:1000", "[2001:db8::ffff:2]:1000", "[2001:db8:0:1::1]:1000"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := hold(t, unwrapped)
			h.begin(32, test.first, "")
			h.begin(1, test.other, "")
			if got := h.send(test.same, ""); got != http.StatusTooManyRequests {
				t.Errorf("status of a request from %s above the limit, after %s = %d, want 429", test.same, test.first, got)
			}
			h.end()
			if got := h.send(test.same, ""); got != http.StatusOK {
				t.Errorf("status after all other requests = %d, want 200", got)
			}
		})
	}
}

// listen serves a handler over TCP until the test ends, with limits on connections, and returns its
// address.
func listen(t *testing.T) string {
	t.Helper()
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clients := new(api.Clients)
	server := api.NewServer(clients.Limit(api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.ReadOnly)), nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(clients.Listener(tcp)) }()
	t.Cleanup(func() {
		// The server keeps a connection open for half a second after it rejects a request with a
		// large header.
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return tcp.Addr().String()
}

// longWait is the time limit for an expected event. shortWait is the time in which an event must
// not happen.
const longWait, shortWait = 20 * time.Second, 200 * time.Millisecond

// connect connects from a local address and requests the readiness. It leaves the connection open
// and returns the error from reading the response.
func connect(t *testing.T, from, to string, wait time.Duration) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: longWait}
	conn, err := dialer.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return conn, err
	}
	return conn, readResponse(conn, wait)
}

func readResponse(conn net.Conn, wait time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// TestFloodOfConnections checks that the connections of one client and the total number of
// connections are limited, and that the socket is not affected.
func TestFloodOfConnections(t *testing.T) {
	address := listen(t)
	socket := socketPath(t)
	serve(t, socket, api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.Full))

	var conns []net.Conn
	for i := range 64 {
		conn, err := connect(t, "127.0.0.2", address, longWait)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
	}
	if _, err := connect(t, "127.0.0.2", address, longWait); err == nil || isTimeout(err) {
		t.Errorf("error of the client's connection above the limit = %v, want an immediate close", err)
	}
	if _, err := connect(t, "127.0.0.1", address, longWait); err != nil {
		t.Errorf("connection of another client: %v", err)
	}
	_ = conns[0].Close()
	wait.Soon(t, "end of a connection of the client", func() bool {
		_, err := connect(t, "127.0.0.2", address, longWait)
		return err == nil
	})

	// 65 connections are open. Seven more clients, the last of them with 63 connections, increase
	// the total to 512.
	var last net.Conn
	for client := 3; client <= 9; client++ {
		count := 64
		if client == 9 {
			count = 63
		}
		for i := range count {
			conn, err := connect(t, "127.0.0."+strconv.Itoa(client), address, longWait)
			if err != nil {
				t.Fatalf("client %d, connection %d: %v", client, i, err)
			}
			last = conn
		}
	}
	for i := range 20 { // idle connections are closed for the new ones
		if _, err := connect(t, "127.0.0.10", address, longWait); err != nil {
			t.Errorf("connection %d of a new client: %v", i, err)
		}
	}
	if _, err := api.NewClient(socket).Autoscalers(t.Context()); err != nil {
		t.Errorf("request on the socket: %v", err)
	}
	if _, err := io.WriteString(last, "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil || readResponse(last, longWait) != nil {
		t.Errorf("the server closed the newest connection of a client with few connections")
	}
}

// TestActiveConnectionsStay checks that connections with a request in progress are not closed to
// make room for new connections, which wait instead.
func TestActiveConnectionsStay(t *testing.T) {
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	active, letGo := make(chan struct{}, 1000), make(chan struct{})
	clients := new(api.Clients)
	server := api.NewServer(clients.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		active <- struct{}{}
		<-letGo
	})), nil)
	go func() { _ = server.Serve(clients.Listener(tcp)) }()
	t.Cleanup(func() { _ = server.Close() })
	address := tcp.Addr().String()
	var conns []net.Conn
	for client := range 16 {
		for range 32 {
			conn, err := connect(t, "127.0.0."+strconv.Itoa(client+2), address, time.Millisecond)
			if !isTimeout(err) {
				t.Fatalf("blocked request: %v", err)
			}
			conns = append(conns, conn)
		}
	}
	for range conns {
		<-active
	}
	waiting, err := connect(t, "127.0.0.100", address, shortWait)
	if !isTimeout(err) {
		t.Errorf("error of the connection above the limit = %v, want a timeout", err)
	}
	letGo <- struct{}{} // its connection becomes idle and is closed
	<-active
	close(letGo)
	if err := readResponse(waiting, longWait); err != nil {
		t.Errorf("waiting connection: %v", err)
	}
	closed := 0
	for _, conn := range conns {
		if readResponse(conn, longWait) != nil {
			closed++
		}
	}
	if closed != 0 {
		t.Errorf("%d requests in progress were aborted", closed)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
