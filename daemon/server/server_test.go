package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/settings/webtest"
)

// fake is an in-memory daemon for the page.
type fake struct{ *apitest.Daemon }

func (fake) AutoscalerConfig(string) string { return "" }

// TestForwardedAuthor checks that the author of a forwarded write is the user who requested it if
// the forwarding member authenticates with a certificate, and that other clients cannot set an
// author.
func TestForwardedAuthor(t *testing.T) {
	dir := t.TempDir()
	authority := webtest.NewCA(t, dir, "authority")
	authority.Issue(t, "server")
	webConfig := webtest.Write(t, dir, "web.yml", "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"+
		"  client_ca_file: authority.crt\n  client_auth_type: RequireAndVerifyClientCert\n")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	alone := fake{&apitest.Daemon{List: []api.Autoscaler{{Name: "web"}}}}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Listeners{TCP: listener, WebConfig: webConfig}, Options{
			Daemon: fake{new(apitest.Daemon)}, Alone: alone, Gatherer: prometheus.NewRegistry(), Log: zap.NewNop(),
			Writers:  func() ([]string, bool) { return nil, true },
			IsMember: func(user string) bool { return user == "vm2" },
		})
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for _, test := range []struct{ certificate, want string }{{"vm2", "alice"}, {"mallory", "mallory"}} {
		certFile, keyFile := authority.Issue(t, test.certificate)
		client := api.NewServerClient(api.Server{URL: "https://" + listener.Addr().String(), CAFile: authority.File, CertFile: certFile, KeyFile: keyFile})
		if _, err := api.Post[api.Autoscaler](api.WithAuthor(t.Context(), "alice"), client.For("vm2"), api.Path("autoscalers", "web", "scale"), api.ScaleRequest{Replicas: new(int32(3))}); err != nil {
			t.Fatal(err)
		}
		if got := alone.Scaled[len(alone.Scaled)-1].Author; got != test.want {
			t.Errorf("author of a write with the certificate of %s = %q, want %q", test.certificate, got, test.want)
		}
	}
}

// TestCannotListen checks that the error from a failed listen names the configuration key and a
// remedy.
func TestCannotListen(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		taken.Addr().String(): `address already in use: another program, perhaps another hpad, uses this port; "ss -ltnp sport = :` + port + `" shows it`,
		"192.0.2.1:" + port:   "this host does not have the address",
	} {
		c := config.DefaultDaemon()
		c.Socket, c.Listen = "", address
		_, err := Listen(t.Context(), c)
		found, ok := errors.AsType[config.Error](err)
		if !ok || found.Key != "daemon.listen" || !strings.Contains(found.Detail, want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}
