package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/policy"
)

// forwarding is a daemon that forwards all requests.
type forwarding struct {
	Daemon
	owner *Client
}

func (f forwarding) Owner(context.Context, policy.Scope, bool) (http.Handler, error) {
	return http.HandlerFunc(f.owner.Forward), nil
}

// TestForward checks that a write is forwarded with its author and without the client's own
// headers, and that the response is the owner's response or an error.
func TestForward(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		body       string
		wantStatus int
		want       string
	}{
		"a pause":                       {200, `{"status":"success","data":{"reason":"sale"}}`, 200, `"reason":"sale"`},
		"refused":                       {409, `{"status":"error","errorType":"refused","error":"not now"}`, 409, `"errorType":"refused","error":"not now"`},
		"an unknown member":             {401, "Unauthorized", 409, `"errorType":"refused","error":"the owner of the fleet rejects writes from this member's user`},
		"a member without write access": {403, `{"status":"error","errorType":"forbidden","error":"a write"}`, 409, `in [ha.members]: a write"`},
		"not hpad":                      {200, "welcome", 504, "outcome unknown: connect to hpad at"},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			var body []byte
			owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				if strings.HasPrefix(test.body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			defer owner.Close()
			d := forwarding{owner: NewServerClient(Server{URL: owner.URL}).For("a")}
			here := httptest.NewServer(NewHandler(d, prometheus.NewRegistry(), func(*http.Request) (string, error) { return "alice", nil }))
			defer here.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, here.URL+"/api/v1/autoscalers/prod%2Fweb/pause", strings.NewReader(`{"reason":"sale"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Basic secret")
			request.Header.Set("Origin", here.URL)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != test.wantStatus || !strings.Contains(string(text), test.want) {
				t.Errorf("got %d %s, %v, want %d with %s", response.StatusCode, text, err, test.wantStatus, test.want)
			}
			if string(body) != `{"reason":"sale"}` || got.URL.EscapedPath() != "/api/v1/autoscalers/prod%2Fweb/pause" {
				t.Errorf("the owner received %s with %s", got.URL.EscapedPath(), body)
			}
			header := got.Header
			if header.Get(MemberHeader) != "a" || header.Get(authorHeader) != "alice" || header.Get("Authorization") != "" || header.Get("Origin") != "" {
				t.Errorf("the owner received the header %v", header)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// sequence is a daemon whose Owner returns the owners in sequence, and the last one repeatedly. It
// returns an ErrMoving for a nil owner.
type sequence struct {
	Daemon
	owners []http.Handler
	calls  int
}

func (s *sequence) Owner(_ context.Context, _ policy.Scope, again bool) (http.Handler, error) {
	if again != (s.calls > 0) {
		return nil, errors.New("again is wrong")
	}
	s.calls++
	owner := s.owners[min(s.calls, len(s.owners))-1]
	if owner == nil {
		return nil, fmt.Errorf("%w: no owner", ErrMoving)
	}
	return owner, nil
}

// TestTakeover checks that a write is repeated while its fleet moves to another owner, with the same
// body, and that a write with an unknown outcome is repeated only if a repetition does no harm.
func TestTakeover(t *testing.T) {
	var mu sync.Mutex // guards received, because a broken response does not order the accesses
	var received []string
	serve := func(handle http.HandlerFunc) http.Handler {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			received = append(received, string(body))
			mu.Unlock()
			handle(w, r)
		}))
		t.Cleanup(server.Close)
		return http.HandlerFunc(NewServerClient(Server{URL: server.URL}).For("a").Forward)
	}
	stopped := httptest.NewServer(nil)
	gone := http.HandlerFunc(NewServerClient(Server{URL: stopped.URL}).For("a").Forward)
	stopped.Close()
	stopping := serve(func(w http.ResponseWriter, _ *http.Request) {
		writeFailure(w, fmt.Errorf("%w: hpad is stopping", ErrMoving))
	})
	broken := serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	succeeds := serve(func(w http.ResponseWriter, _ *http.Request) { writePage(w, policy.Pause{Reason: "sale"}, "", nil) })
	refuses := serve(func(w http.ResponseWriter, _ *http.Request) { writeFailure(w, ErrRefused) })
	for name, test := range map[string]struct {
		path   string
		owners []http.Handler
		status int
		want   string
	}{
		"an owner that is gone":         {"scale", []http.Handler{gone, succeeds}, 200, "sale"},
		"a fleet without an owner":      {"scale", []http.Handler{nil, nil, succeeds}, 200, "sale"},
		"an owner that stops":           {"scale", []http.Handler{stopping, succeeds}, 200, "sale"},
		"several owners":                {"resume", []http.Handler{stopping, gone, stopping, succeeds}, 200, "sale"},
		"a refusal":                     {"scale", []http.Handler{refuses, succeeds}, 409, "refused"},
		"a broken pause":                {"pause", []http.Handler{broken, succeeds}, 200, "sale"},
		"a broken evaluation":           {"evaluate", []http.Handler{broken, stopping, succeeds}, 200, "sale"},
		"a broken change of the count":  {"scale", []http.Handler{broken, succeeds}, 504, "outcome unknown"},
		"a broken end of a pause":       {"resume", []http.Handler{broken, succeeds}, 504, "outcome unknown"},
		"a broken change after a move":  {"scale", []http.Handler{gone, broken, succeeds}, 504, "outcome unknown"},
		"a refusal of the second owner": {"pause", []http.Handler{stopping, refuses, succeeds}, 409, "refused"},
	} {
		mu.Lock()
		received = nil
		mu.Unlock()
		w, sent := httptest.NewRecorder(), `{"reason":"sale"}`
		r := httptest.NewRequest(http.MethodPost, "/api/v1/autoscalers/web/"+test.path, strings.NewReader(sent))
		r.Header.Set("Content-Type", "application/json")
		NewHandler(&sequence{owners: test.owners}, prometheus.NewRegistry(), Full).ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, w.Code, w.Body, test.status, test.want)
		}
		mu.Lock()
		if slices.ContainsFunc(received, func(body string) bool { return body != sent }) {
			t.Errorf("%s: the owners received %q, want the body of the request", name, received)
		}
		mu.Unlock()
	}
}

// TestTakeoverWait checks the time limit of a write whose fleet gets no new owner, and that a member
// does not repeat a forwarded write.
func TestTakeoverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moves := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeFailure(w, fmt.Errorf("%w: no owner", ErrMoving)) })
		for member, want := range map[string]time.Duration{"": TakeoverWait, "b": 0} {
			w, began := httptest.NewRecorder(), time.Now()
			r := httptest.NewRequest(http.MethodPost, "/api/v1/fleets/prod/resume", http.NoBody)
			r.Header.Set(MemberHeader, member)
			NewHandler(&sequence{owners: []http.Handler{moves}}, prometheus.NewRegistry(), Full).ServeHTTP(w, r)
			if took := time.Since(began); took != want || w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "no owner") {
				t.Errorf("member %q: got %d %s after %s, want %d after %s", member, w.Code, w.Body, took, http.StatusConflict, want)
			}
		}
	})
}
