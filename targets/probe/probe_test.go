package probe

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHTTP(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("User-Agent") != "hpad-probe" {
			t.Errorf("got method %s and User-Agent %q", r.Method, r.Header.Get("User-Agent"))
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/nowhere", http.StatusFound)
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/long":
			_, _ = w.Write(make([]byte, 10*maxBody)) // more than the probe reads
		case "/closed":
			panic(http.ErrAbortHandler)
		case "/silent":
			cancel()
			<-r.Context().Done()
		case "/nowhere":
			t.Error("followed a redirect")
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/": "", "/moved": "", "/long": "", "/busy": "GET " + server.URL + "/busy: 503", "/closed": "GET " + server.URL + "/closed: the connection was closed without a response"} {
		err := HTTP(t.Context(), server.URL+path)
		if got := text(err); got != want {
			t.Errorf("HTTP(%s) = %q, want %q", path, got, want)
		}
	}
	if err := HTTP(ctx, server.URL+"/silent"); !errors.Is(err, context.Canceled) {
		t.Errorf("HTTP() with a canceled context = %v, want Canceled", err)
	}
	if err := HTTP(t.Context(), "http://[::1"); err == nil || !strings.Contains(err.Error(), "missing ']'") {
		t.Errorf("HTTP() of an invalid URL = %v", err)
	}
}

func TestTCP(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.Listener.Addr().String()
	if err := TCP(t.Context(), address); err != nil {
		t.Errorf("TCP() = %v, want nil", err)
	}
	server.Close()
	if err := TCP(t.Context(), address); !errors.Is(err, syscall.ECONNREFUSED) || text(err) != "connect to "+address+": connection refused" {
		t.Errorf("TCP() of a closed port = %v, want ECONNREFUSED", err)
	}
	if want := "GET http://" + address + "/: connection refused"; text(HTTP(t.Context(), "http://"+address+"/")) != want {
		t.Errorf("HTTP() of a closed port = %v, want %s", HTTP(t.Context(), "http://"+address+"/"), want)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if want := "GET http://" + address + "/: timeout"; text(HTTP(late, "http://"+address+"/")) != want {
		t.Errorf("HTTP() after the deadline = %v, want %s", HTTP(late, "http://"+address+"/"), want)
	}
}

// text returns the text of an error; "" for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
