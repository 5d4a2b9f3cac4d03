package web_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/web"
	"github.com/hpad/hpad/settings/webtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a running server with a web config.
type served struct {
	t         *testing.T
	dir       string
	authority *webtest.CA
	address   string
	logs      *observer.ObservedLogs
	// outer counts the requests that arrive before passwords are checked.
	outer atomic.Int32
}

func serve(t *testing.T, config string) *served {
	t.Helper()
	s := &served{t: t}
	s.dir, s.authority = newDir(t)
	path := webtest.Write(t, s.dir, "web.yml", config)
	if err := web.Check(path); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	s.logs = logs
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				name, err := web.Identify(path, r)
				if err != nil {
					http.Error(w, err.Error(), http.StatusForbidden)
				}
				_, _ = io.WriteString(w, name)
			}
		}),
	}
	ready := make(chan struct{})
	outer := func(next http.Handler) http.Handler {
		close(ready)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.outer.Add(1)
			next.ServeHTTP(w, r)
		})
	}
	done := make(chan error, 1)
	go func() { done <- web.Serve(listener, server, path, zap.New(core), outer) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

type client struct {
	tls, cert      bool
	user, password string
}

func (s *served) send(c client, method string) (int, string) {
	s.t.Helper()
	scheme, transport := "http", &http.Transport{DisableKeepAlives: true}
	if c.tls {
		scheme = "https"
		var certFile, keyFile string
		if c.cert {
			certFile, keyFile = s.authority.Issue(s.t, "client")
		}
		transport.TLSClientConfig = s.authority.ClientConfig(s.t, certFile, keyFile)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, scheme+"://"+s.address+"/", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if c.user != "" {
		request.SetBasicAuth(c.user, c.password)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// TestIdentify checks that only authenticated clients can write.
func TestIdentify(t *testing.T) {
	users := "basic_auth_users:\n  alice: " + webtest.Hash(t, "wonder") + "\n"
	const clients = "  client_ca_file: clients.crt\n  client_auth_type: "
	const required, given, whatever = clients + "RequireAndVerifyClientCert\n", clients + "VerifyClientCertIfGiven\n", "  client_auth_type: RequireAnyClientCert\n"
	const unsupported, anonymous, plain, wanted = "does not authenticate clients", "is not authenticated", "HTTP request to an HTTPS server", "certificate required"
	alice, wrong, bob := client{user: "alice", password: "wonder"}, client{user: "alice", password: "x"}, client{user: "bob", password: "wonder"}
	withTLS := func(c client) client { c.tls = true; return c }
	for _, test := range []struct {
		name, config     string
		client           client
		wantGet, wantPut int
		wantBody         string
	}{
		{"empty config", "", client{}, 200, 403, unsupported},
		{"empty config, user given", "", alice, 200, 403, unsupported},
		{"TLS only", tlsKeys, client{tls: true}, 200, 403, unsupported},
		{"TLS only, user given", tlsKeys, withTLS(alice), 200, 403, unsupported},
		{"TLS only, certificate given", tlsKeys, client{tls: true, cert: true}, 200, 403, unsupported},
		{"plain HTTP to a TLS server", tlsKeys, client{}, 400, 400, plain},
		{"unverified certificates", tlsKeys + whatever, client{tls: true, cert: true}, 200, 403, unsupported},
		{"certificate required and given", tlsKeys + required, client{tls: true, cert: true}, 200, 200, "client"},
		{"certificate required and missing", tlsKeys + required, client{tls: true}, 0, 0, wanted},
		{"optional certificate given", tlsKeys + given, client{tls: true, cert: true}, 200, 200, "client"},
		{"optional certificate missing", tlsKeys + given, client{tls: true}, 200, 403, anonymous},
		{"user", users, alice, 200, 200, "alice"},
		{"user with a wrong password", users, wrong, 401, 401, "Unauthorized"},
		{"unknown user", users, bob, 401, 401, "Unauthorized"},
		{"no user", users, client{}, 401, 401, "Unauthorized"},
		{"user over TLS", tlsKeys + users, withTLS(alice), 200, 200, "alice"},
		{"no user over TLS", tlsKeys + users, client{tls: true}, 401, 401, "Unauthorized"},
		{"certificate and user", tlsKeys + required + users, client{tls: true, cert: true, user: "alice", password: "wonder"}, 200, 200, "alice"},
		{"certificate without user", tlsKeys + required + users, client{tls: true, cert: true}, 401, 401, "Unauthorized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.config)
			if got, body := s.send(test.client, http.MethodGet); got != test.wantGet {
				t.Errorf("GET returned %d %s, want %d", got, body, test.wantGet)
			}
			got, body := s.send(test.client, http.MethodPost)
			if got != test.wantPut || !strings.Contains(body, test.wantBody) {
				t.Errorf("POST returned %d %q, want %d %q", got, body, test.wantPut, test.wantBody)
			}
			if wantOuter := 2; test.wantGet > 0 && test.wantGet != 400 && int(s.outer.Load()) != wantOuter {
				t.Errorf("requests through outer = %d, want %d", s.outer.Load(), wantOuter)
			}
		})
	}
}

// TestUnknownCA checks that a certificate from an unknown CA is rejected.
func TestUnknownCA(t *testing.T) {
	s := serve(t, tlsKeys+"  client_ca_file: clients.crt\n  client_auth_type: RequireAndVerifyClientCert\n")
	dir := t.TempDir()
	certFile, keyFile := webtest.NewCA(t, dir, "strangers").Issue(t, "client")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	config := s.authority.ClientConfig(t, "", "")
	// The client sends its certificate even though the server does not list its CA.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
		t.Fatalf("status for a client with an unknown CA = %d", response.StatusCode)
	}
	if !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("error = %v, want an unknown CA", err)
	}
}

// TestFileChanges checks that changes to the file apply to the next request, and that no client can
// write if the file contains no users.
func TestFileChanges(t *testing.T) {
	users := "basic_auth_users:\n  alice: " + webtest.Hash(t, "wonder") + "\n"
	s := serve(t, tlsKeys+users)
	alice := client{tls: true, user: "alice", password: "wonder"}
	expect := func(when string, c client, wantGet, wantPost int) {
		t.Helper()
		get, _ := s.send(c, http.MethodGet)
		if post, body := s.send(c, http.MethodPost); get != wantGet || post != wantPost {
			t.Errorf("%s: GET returned %d, POST %d %s; want %d and %d", when, get, post, body, wantGet, wantPost)
		}
	}
	expect("at first", alice, 200, 200)
	webtest.Write(t, s.dir, "web.yml", tlsKeys)
	expect("without users", alice, 200, 403)
	expect("without users, unnamed", client{tls: true}, 200, 403)
	webtest.Write(t, s.dir, "web.yml", tlsKeys+"basic_auth_users:\n  alice: "+webtest.Hash(t, "other")+"\n")
	expect("with another password", alice, 401, 401)
	webtest.Write(t, s.dir, "web.yml", tlsKeys+users)
	expect("as at first", alice, 200, 200)

	// A new certificate is used for new connections.
	before, err := tls.Dial("tcp", s.address, s.authority.ClientConfig(t, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	serial := before.ConnectionState().PeerCertificates[0].SerialNumber
	_ = before.Close()
	s.authority.Issue(t, "server")
	after, err := tls.Dial("tcp", s.address, s.authority.ClientConfig(t, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := after.ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(serial) == 0 {
		t.Error("the server still uses the old certificate")
	}
	_ = after.Close()

	webtest.Write(t, s.dir, "web.yml", "basic_auth_users: hunter2\n")
	if status, _ := s.send(alice, http.MethodPost); status == 200 {
		t.Error("an invalid file permits writes")
	}
	webtest.Write(t, s.dir, "web.yml", tlsKeys+strings.Replace(users, "alice: $", "alice: hunter2$", 1))
	expect("with an invalid hash", alice, 401, 401)
	for _, entry := range s.logs.All() {
		for _, value := range entry.ContextMap() {
			if text, ok := value.(string); ok && strings.Contains(text, "hunter2") {
				t.Errorf("the log contains a secret: %s %s", entry.Message, text)
			}
		}
	}
}
