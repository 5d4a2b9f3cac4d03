package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/policy"
)

// forwarding is a daemon that forwards all requests.
type forwarding struct {
	Daemon
	owner *Client
}

func (f forwarding) Owner(context.Context, policy.Scope) (http.Handler, error) {
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
		"not hpad":                      {200, "welcome", 500, "the server there is not hpad"},
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
			if header.Get(MemberHeader) != "a" || header.Get(AuthorHeader) != "alice" || header.Get("Authorization") != "" || header.Get("Origin") != "" {
				t.Errorf("the owner received the header %v", header)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOwnerIsGone(t *testing.T) {
	owner := httptest.NewServer(nil)
	d := forwarding{owner: NewServerClient(Server{URL: owner.URL}).For("a")}
	owner.Close()
	w := httptest.NewRecorder()
	NewHandler(d, prometheus.NewRegistry(), Full).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/fleets/prod/resume", http.NoBody))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "connect to hpad at") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
