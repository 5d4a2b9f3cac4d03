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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
)

// A body is small JSON or none.
func TestBodies(t *testing.T) {
	large := strings.Repeat("x", 64<<10+1)
	for _, test := range []struct {
		name, media, body string
		unsized           bool
		want              int
		wantType          string
	}{
		{"none", "", "", false, 200, ""},
		{"none, called a form", "application/x-www-form-urlencoded", "", false, 200, ""},
		{"JSON", "application/json", "{}", false, 200, ""},
		{"JSON with its letters", "application/json; charset=utf-8", "{}", false, 200, ""},
		{"a form", "application/x-www-form-urlencoded", "a=b", false, 415, "unsupported_media_type"},
		{"a text", "text/plain", "{}", false, 415, "unsupported_media_type"},
		{"of no type", "", "{}", false, 415, "unsupported_media_type"},
		{"too large", "application/json", large, false, 413, "too_large"},
		{"too large without saying so", "application/json", large, true, 413, "too_large"},
		{"as large as can be", "application/json", large[1:], false, 200, ""},
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
			response := ask(t, d, api.Full, request)
			a := open(t, response)
			if response.Code != test.want || a.ErrorType != test.wantType {
				t.Errorf("status %d, envelope %+v; want %d %q", response.Code, a, test.want, test.wantType)
			}
			if (d.reloads == 1) != (test.want == 200) {
				t.Errorf("%d reloads", d.reloads)
			}
		})
	}
	// A read refuses a body that says it is too large, and looks at no other.
	if response := ask(t, twoAutoscalers(), api.ReadOnly, httptest.NewRequest(http.MethodGet, "/-/ready", strings.NewReader(large))); response.Code != 413 {
		t.Errorf("a read with a large body answers %d, want 413", response.Code)
	}
}

// A page of another site cannot have itself taken for hpad.
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
		handler := api.NewHandler(&fakeDaemon{readiness: api.Readiness{Ready: true}}, prometheus.NewRegistry(), api.ReadOnly)
		api.CheckHosts([]string{"hpad.example.com"}, handler).ServeHTTP(response, request)
		checkAnswer(t, request, response)
		if response.Code != want {
			t.Errorf("host %q is answered with %d, want %d", host, response.Code, want)
		}
	}
}

// guarded asks what Limit guards, as a client.
type guarded struct {
	t       *testing.T
	handler http.Handler
}

// newGuarded guards a handler that takes the password "right" where one is given.
func newGuarded(t *testing.T, clients *api.Clients) *guarded {
	inner := clients.Known(api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.ReadOnly))
	return &guarded{t, clients.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, ok := r.BasicAuth(); ok && password != "right" {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))}
}

// ask answers the status of one request, and how long to wait where it is 429.
func (g *guarded) ask(from, path, password string) (status int, wait time.Duration) {
	g.t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.RemoteAddr = from
	if password != "" {
		request.SetBasicAuth("alice", password)
	}
	response := httptest.NewRecorder()
	g.handler.ServeHTTP(response, request)
	if response.Code != http.StatusUnauthorized {
		checkAnswer(g.t, request, response)
	}
	if response.Code == http.StatusTooManyRequests {
		if a := open(g.t, response); a.ErrorType != "too_many_requests" || a.Error == "" {
			g.t.Errorf("envelope %+v, want too_many_requests", a)
		}
		seconds, err := strconv.Atoi(response.Header().Get("Retry-After"))
		if err != nil {
			g.t.Errorf("Retry-After: %v", err)
		}
		wait = time.Duration(seconds) * time.Second
	}
	return response.Code, wait
}

// until answers how many requests get an answer other than 429, and the wait of
// the first that does.
func (g *guarded) until(from, path, password string) (served int, wait time.Duration) {
	g.t.Helper()
	for ; served < 1000; served++ {
		status, wait := g.ask(from, path, password)
		if status == http.StatusTooManyRequests {
			return served, wait
		}
	}
	g.t.Fatal("a thousand requests at once are served")
	return 0, 0
}

const one, other = "192.0.2.1:1000", "192.0.2.2:1000"

// One client's flood is its own trouble, and ends by itself.
func TestFloodOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, api.NewClients(nil))
		if served, wait := g.until(one, "/api/v1/autoscalers", ""); served != 200 || wait != time.Second {
			t.Errorf("%d requests at once are served and then %v to wait, want 200 and 1s", served, wait)
		}
		if status, _ := g.ask("192.0.2.1:2000", "/api/v1/discovery", ""); status != 429 {
			t.Errorf("another port of the client is answered with %d, want 429", status)
		}
		if status, _ := g.ask(other, "/api/v1/autoscalers", ""); status != 200 {
			t.Errorf("another client is answered with %d, want 200", status)
		}
		// Scrapes and probes are counted apart, and bounded too.
		if served, _ := g.until(one, "/metrics", ""); served != 50 {
			t.Errorf("%d scrapes at once are served, want 50", served)
		}
		if status, _ := g.ask(other, "/-/healthy", ""); status != 200 {
			t.Errorf("another client's probe is answered with %d, want 200", status)
		}
		time.Sleep(time.Second)
		if served, _ := g.until(one, "/api/v1/autoscalers", ""); served != 50 {
			t.Errorf("%d requests are served a second later, want 50", served)
		}
	})
}

// Addresses of one IPv6 network are one client.
func TestNetworkIsOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, api.NewClients(nil))
		g.until("[2001:db8::1]:1000", "/api/v1/autoscalers", "")
		if status, _ := g.ask("[2001:db8::ffff:2]:1000", "/api/v1/autoscalers", ""); status != 429 {
			t.Errorf("an address of the same network is answered with %d, want 429", status)
		}
		if status, _ := g.ask("[2001:db8:0:1::1]:1000", "/api/v1/autoscalers", ""); status != 200 {
			t.Errorf("an address of another network is answered with %d, want 200", status)
		}
		g.until(one, "/api/v1/autoscalers", "")
		if status, _ := g.ask("[::ffff:192.0.2.1]:1000", "/api/v1/autoscalers", ""); status != 429 {
			t.Errorf("an IPv4 address in IPv6 is answered with %d, want 429", status)
		}
	})
}

// Guesses are few, and right passwords are not counted.
func TestGuessedPasswords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, api.NewClients(nil))
		for range 100 {
			if status, _ := g.ask(one, "/-/ready", "right"); status != 200 && status != 429 {
				t.Fatalf("a right password is answered with %d", status)
			}
		}
		if served, wait := g.until(one, "/api/v1/autoscalers", "wrong"); served != 10 || wait != time.Second {
			t.Errorf("%d guesses are answered and then %v to wait, want 10 and 1s", served, wait)
		}
		if status, _ := g.ask(other, "/api/v1/autoscalers", "right"); status != 200 {
			t.Errorf("another client is answered with %d, want 200", status)
		}
		time.Sleep(3 * time.Second)
		if served, _ := g.until(one, "/api/v1/autoscalers", "wrong"); served != 3 {
			t.Errorf("%d guesses are answered three seconds later, want 3", served)
		}
		time.Sleep(time.Second)
		if status, _ := g.ask(one, "/api/v1/autoscalers", "right"); status != 200 {
			t.Errorf("the right password is answered with %d, want 200", status)
		}
	})
}

// A wrong name of hpad is told as such, however often, and is no wrong password.
func TestWrongHostIsNoGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := api.NewClients(nil)
		inner := clients.Known(api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.ReadOnly))
		g := &guarded{t, clients.Limit(api.CheckHosts([]string{"hpad.example.com"}, inner))}
		for i := range 30 { // httptest asks for example.com
			if status, _ := g.ask(one, "/api/v1/autoscalers", "right"); status != http.StatusForbidden {
				t.Fatalf("request %d is answered with %d, want 403", i, status)
			}
		}
	})
}

// Few passwords of one client are checked at once.
func TestPasswordsCheckedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, checked := api.NewClients(nil), make(chan struct{})
		limited := clients.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-checked }))
		ask := func(from string) *httptest.ResponseRecorder {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.RemoteAddr = from
			request.SetBasicAuth("alice", "wrong")
			response := httptest.NewRecorder()
			limited.ServeHTTP(response, request)
			return response
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { ask(one) })
		}
		group.Go(func() {
			if response := ask(other); response.Code == 429 {
				t.Error("another client's password is not checked")
			}
		})
		synctest.Wait()
		if response := ask(one); response.Code != 429 || response.Header().Get("Retry-After") != "1" {
			t.Errorf("the fifth is answered with %d, want 429", response.Code)
		}
		close(checked)
		group.Wait()
	})
}

// Few requests of one client are answered at once.
func TestRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, answered := api.NewClients(nil), make(chan struct{})
		limited := clients.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answered }))
		ask := func(from string) int {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.RemoteAddr = from
			response := httptest.NewRecorder()
			limited.ServeHTTP(response, request)
			return response.Code
		}
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				if got := ask(one); got != 200 {
					t.Errorf("one of the first is answered with %d", got)
				}
			})
		}
		group.Go(func() {
			if got := ask(other); got != 200 {
				t.Errorf("another client is answered with %d", got)
			}
		})
		synctest.Wait()
		if got := ask(one); got != 429 {
			t.Errorf("the one too many is answered with %d, want 429", got)
		}
		close(answered)
		group.Wait()
		if got := ask(one); got != 200 {
			t.Errorf("one after all the others is answered with %d, want 200", got)
		}
	})
}

// However many clients there are, hpad remembers few, and the first ones again.
func TestManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, api.NewClients(nil))
		address := func(i int) string { return net.IPv4(10, 0, byte(i>>8), byte(i)).String() + ":1" }
		for i := range 4096 {
			if status, _ := g.ask(address(i), "/api/v1/discovery", ""); status != 200 {
				t.Fatalf("client %d is answered with %d", i, status)
			}
		}
		// Those beyond share one limit.
		served := 0
		for i := range 300 {
			if status, _ := g.ask(address(5000+i), "/api/v1/discovery", ""); status == 200 {
				served++
			}
		}
		if served != 200 {
			t.Errorf("%d of 300 clients beyond are served, want 200", served)
		}
		// The first have their tokens back long before they are looked for again.
		time.Sleep(500 * time.Millisecond)
		served = 0
		for i := range 300 {
			if status, _ := g.ask(address(6000+i), "/api/v1/discovery", ""); status == 200 {
				served++
			}
		}
		if served != 25 { // half a second's of the shared limit
			t.Errorf("%d of 300 clients are served half a second later, want 25", served)
		}
		time.Sleep(time.Minute)
		served = 0
		for i := range 300 {
			if status, _ := g.ask(address(5000+i), "/api/v1/discovery", ""); status == 200 {
				served++
			}
		}
		if served != 300 {
			t.Errorf("%d of 300 clients are served once the first are forgotten, want all", served)
		}
	})
}

// listen serves a handler on TCP with the limits on connections until the test
// ends, and answers its address. It counts refused connections.
func listen(t *testing.T, refused *atomic.Int32) string {
	t.Helper()
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clients := api.NewClients(func() { refused.Add(1) })
	server := api.NewServer(clients.Limit(api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.ReadOnly)), nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(clients.Listener(tcp)) }()
	t.Cleanup(func() {
		// A connection whose header was too large takes half a second to end.
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return tcp.Addr().String()
}

// patience is how long something may take that is to happen, impatience how long
// something is looked at that is not.
const patience, impatience = 20 * time.Second, 200 * time.Millisecond

// connect connects from an address of this machine and asks for the readiness.
// The connection stays open; the error is that of the answer.
func connect(t *testing.T, from, to string, wait time.Duration) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	conn, err := dialer.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return conn, err
	}
	return conn, readAnswer(conn, wait)
}

func readAnswer(conn net.Conn, wait time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// One client's connections leave room for others, all together are bounded, and
// the socket is not touched by any of it.
func TestFloodOfConnections(t *testing.T) {
	var refused atomic.Int32
	address := listen(t, &refused)
	socket := socketPath(t)
	serve(t, socket, api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.Full))

	var conns []net.Conn
	for i := range 64 {
		conn, err := connect(t, "127.0.0.2", address, patience)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
	}
	if _, err := connect(t, "127.0.0.2", address, patience); err == nil || isTimeout(err) {
		t.Errorf("the client's connection too many: %v, want it closed at once", err)
	}
	if got := refused.Load(); got != 1 {
		t.Errorf("%d connections are counted as refused, want 1", got)
	}
	if _, err := connect(t, "127.0.0.1", address, patience); err != nil {
		t.Errorf("another client: %v", err)
	}
	_ = conns[0].Close()
	eventually(t, "the client has room again", func() bool {
		_, err := connect(t, "127.0.0.2", address, patience)
		return err == nil
	})

	// 65 are open; seven more clients, the last one with 63, make 512.
	var last net.Conn
	for client := 3; client <= 9; client++ {
		count := 64
		if client == 9 {
			count = 63
		}
		for i := range count {
			conn, err := connect(t, "127.0.0."+strconv.Itoa(client), address, patience)
			if err != nil {
				t.Fatalf("client %d, connection %d: %v", client, i, err)
			}
			last = conn
		}
	}
	waiting, err := connect(t, "127.0.0.10", address, impatience)
	if !isTimeout(err) {
		t.Errorf("the connection too many: %v, want it to wait", err)
	}
	if _, err := api.NewClient(socket).Autoscalers(t.Context()); err != nil {
		t.Errorf("the socket: %v", err)
	}
	_ = last.Close()
	if err := readAnswer(waiting, patience); err != nil {
		t.Errorf("the connection that waited: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// eventually waits for something to become true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if is() {
			return
		}
	}
	t.Errorf("it never happens that %s", what)
}

// A header has its limit too.
func TestLargeHeader(t *testing.T) {
	address := listen(t, new(atomic.Int32))
	for size, want := range map[int]int{30 << 10: 200, 40 << 10: 431} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/-/ready", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Large", strings.Repeat("x", size))
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a header of %d bytes is answered with %d, want %d", size, response.StatusCode, want)
		}
	}
}

// A request for no path, "OPTIONS *", goes where all others do.
func TestNoRequestGoesPastLimits(t *testing.T) {
	recorded := make(chan string, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded <- r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusUnauthorized)
	})
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.NewServer(handler, nil)
	server.Start()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque = "*"
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("status %d, want the handler's", response.StatusCode)
	}
	if got := <-recorded; got != "OPTIONS *" {
		t.Errorf("the handler was asked %q", got)
	}
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4720} }

// Who sends a byte now and then is not waited for.
func TestSlowClients(t *testing.T) {
	for _, test := range []struct {
		name, first, rest string
		want              time.Duration
	}{
		{"header", "GET /-/ready HTTP/1.1\r\nHost: x\r\nX-Slow: ", strings.Repeat("x", 100), 10 * time.Second},
		{"body", "POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 100), 30 * time.Second},
		{"nothing at all", "", "", 10 * time.Second},
		{"nothing after an answer", "GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n", "", 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipes()
				server := api.NewServer(api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.Full), nil)
				done := make(chan error, 1)
				go func() { done <- server.Serve(listener) }()
				client, remote := net.Pipe()
				listener.conns <- remote
				began := time.Now()
				var closed time.Duration
				read := make(chan struct{})
				go func() {
					_, _ = io.Copy(io.Discard, client)
					closed = time.Since(began)
					close(read)
				}()
				if _, err := io.WriteString(client, test.first); err != nil {
					t.Error(err)
				}
				for i := range test.rest {
					time.Sleep(3 * time.Second)
					if _, err := client.Write([]byte{test.rest[i]}); err != nil {
						break
					}
				}
				<-read
				if closed < test.want || closed > test.want+time.Second {
					t.Errorf("the connection is closed after %v, want %v", closed, test.want)
				}
				if err := server.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				<-done
			})
		})
	}
}
