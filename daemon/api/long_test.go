package api_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

// quietDaemon has instances without output, and a state whose export does not end.
type quietDaemon struct{ *apitest.Daemon }

func (quietDaemon) WriteLogs(ctx context.Context, _, _ string, _ targets.LogQuery, _ io.Writer) error {
	<-ctx.Done()
	return ctx.Err()
}

func (quietDaemon) ExportState(ctx context.Context, _ io.Writer, _ bool) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLongResponses checks that responses that stay open have their own limits, and that they do
// not block other requests of their client.
func TestLongResponses(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		member bool
		limit  func(*api.Clients, http.Handler) http.Handler
		// addresses is the number of clients, and perClient the number of long responses of each.
		addresses, perClient int
		want                 string
	}{
		"output":        {"/api/v1/autoscalers/checkout/logs?follow=true", false, (*api.Clients).Limit, 8, 4, "to this address (logs, profiles and state exports, at most 4)"},
		"past output":   {"/api/v1/autoscalers/checkout/logs", false, (*api.Clients).Limit, 8, 4, "at most 4"},
		"state":         {"/api/v1/state", false, (*api.Clients).Limit, 8, 4, "at most 4"},
		"heap profile":  {"/debug/pprof/heap?seconds=50", false, (*api.Clients).Limit, 1, 4, "at most 4"},
		"from a member": {"/api/v1/autoscalers/checkout/logs?follow=true", true, (*api.Clients).Limit, 1, 32, "(logs, profiles and state exports, at most 32)"},
		"socket":        {"/api/v1/autoscalers/checkout/logs?follow=true", false, (*api.Clients).LimitLong, 1, 32, "at most 32"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := test.limit(new(api.Clients), api.NewHandler(quietDaemon{twoAutoscalers()}, prometheus.NewRegistry(), api.Full))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				request := func(ctx context.Context, path, from string) *httptest.ResponseRecorder {
					r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
					if r.RemoteAddr = from; test.member {
						r.Header.Set(api.MemberHeader, "vm2")
					}
					response := httptest.NewRecorder()
					handler.ServeHTTP(response, r)
					return response
				}
				var group sync.WaitGroup
				defer group.Wait()
				defer cancel()
				for client := range test.addresses {
					from := "192.0.2." + string(rune('1'+client)) + ":1"
					for range test.perClient {
						group.Go(func() { request(ctx, test.path, from) })
					}
					synctest.Wait()
					for range 40 { // more requests than a client can have at the same time
						if response := request(t.Context(), test.path, from); response.Code != http.StatusTooManyRequests || client == 0 && !strings.Contains(response.Body.String(), test.want) {
							t.Fatalf("response above the limit of client %d: %d %s, want 429 with %q", client, response.Code, response.Body, test.want)
						}
					}
					for _, path := range []string{"/metrics", "/-/ready"} {
						if response := request(t.Context(), path, from); response.Code != http.StatusOK {
							t.Errorf("%s: %d %s", path, response.Code, response.Body)
						}
					}
				}
				if test.addresses*test.perClient == 32 {
					if response := request(t.Context(), test.path, "192.0.2.100:1"); response.Code != http.StatusTooManyRequests || !strings.Contains(response.Body.String(), "at most 32") {
						t.Errorf("response above the limit of the listener: %d %s", response.Code, response.Body)
					}
				}
				cancel()
				group.Wait()
				ended, end := context.WithCancel(t.Context())
				end()
				if response := request(ended, test.path, "192.0.2.1:1"); response.Code == http.StatusTooManyRequests {
					t.Errorf("status after all responses = %d", response.Code)
				}
			})
		})
	}
}

// TestSlowReaders checks that clients that do not read their responses do not block new requests
// and connections from their address.
func TestSlowReaders(t *testing.T) {
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clients := new(api.Clients)
	mux := http.NewServeMux()
	mux.Handle("/-/ready", api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.ReadOnly))
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	})
	server := api.NewServer(clients.Limit(mux), nil)
	go func() { _ = server.Serve(clients.Listener(tcp)) }()
	t.Cleanup(func() { _ = server.Close() })
	for range 80 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n") // fails if the connection is closed
	}
	wait.Soon(t, "response to another request from the address", func() bool {
		_, err := connect(t, "127.0.0.1", tcp.Addr().String(), time.Second)
		return err == nil
	})
}
