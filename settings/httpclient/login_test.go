package httpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/secret"
)

// respond is a transport that responds with the status that it returns.
type respond func(r *http.Request) int

func (f respond) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f(r), Body: http.NoBody, Request: r}, nil
}

// counted returns a login that numbers its tokens, which expire after lifetime.
func counted(logins *int, lifetime time.Duration) Login {
	return Login{Purpose: "get a token", Get: func(context.Context) (Credentials, error) {
		*logins++
		return Bearer(fmt.Sprintf("token-%d", *logins), time.Now().Add(lifetime)), nil
	}}
}

func newTransport(login Login, next http.RoundTripper) *http.Client {
	return &http.Client{Transport: &loginTransport{next: next, login: login, turn: semaphore.NewWeighted(1)}}
}

func post(t *testing.T, client *http.Client) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/", strings.NewReader("query"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// TestRenewal checks that credentials are used until they expire or are rejected, and that the body of
// a request is sent again.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, valid, requests := 0, "token-1", 0
		client := newTransport(counted(&logins, time.Hour), respond(func(r *http.Request) int {
			requests++
			if body, err := io.ReadAll(r.Body); string(body) != "query" || err != nil {
				t.Errorf("body = %q, %v", body, err)
			}
			if r.Header.Get("Authorization") != "Bearer "+valid {
				return http.StatusUnauthorized
			}
			return http.StatusOK
		}))
		for _, step := range []struct {
			name                     string
			pass                     time.Duration
			valid                    string
			status, logins, requests int
		}{
			{"first request", 0, "token-1", 200, 1, 1},
			{"valid token", 30 * time.Minute, "token-1", 200, 1, 1},
			{"expired token", 30*time.Minute - renewBefore, "token-2", 200, 2, 1},
			{"rejected new token", rejectableAfter / 2, "none", 401, 2, 1},
			{"rejected token", rejectableAfter, "token-3", 200, 3, 2},
			{"server that rejects all tokens", rejectableAfter, "none", 401, 4, 2},
			{"next rejection", rejectableAfter / 2, "none", 401, 4, 1},
		} {
			time.Sleep(step.pass)
			valid, requests = step.valid, 0
			status, err := post(t, client)
			if status != step.status || err != nil || logins != step.logins || requests != step.requests {
				t.Errorf("%s: status %d, %v after %d logins and %d requests, want %d after %d and %d",
					step.name, status, err, logins, requests, step.status, step.logins, step.requests)
			}
		}
	})
}

// TestFailingLogin checks that a failed login is repeated after a second, not for every request.
func TestFailingLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, failure := 0, errors.New("no access")
		client := newTransport(Login{Purpose: "get a token", Get: func(context.Context) (Credentials, error) {
			logins++
			return Credentials{Authorize: func(*http.Request) error { return nil }}, failure
		}}, respond(func(*http.Request) int { return http.StatusOK }))
		for range 3 {
			_, err := post(t, client)
			if login, ok := errors.AsType[*LoginError](err); !ok || login.Error() != "get a token: no access" || !errors.Is(err, failure) {
				t.Errorf("error = %v", err)
			}
		}
		if logins != 1 {
			t.Errorf("%d logins, want 1", logins)
		}
		failure = nil
		time.Sleep(repeatAfter)
		if status, err := post(t, client); status != http.StatusOK || err != nil {
			t.Errorf("request after a login = %d, %v", status, err)
		}
	})
}

// TestHangingLogin checks that requests end with their contexts while a login hangs, and that the next
// request logs in again.
func TestHangingLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := true
		client := newTransport(Login{Purpose: "get a token", Get: func(ctx context.Context) (Credentials, error) {
			if hangs {
				<-ctx.Done()
			}
			return Bearer("some-Token-1", time.Time{}), ctx.Err()
		}}, respond(func(*http.Request) int { return http.StatusOK }))
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/", http.NoBody)
				_, err := client.Do(request) //nolint:bodyclose // it fails
				if login, ok := errors.AsType[*LoginError](err); !ok || !errors.Is(login, context.DeadlineExceeded) {
					t.Errorf("error = %v, want a LoginError", err)
				}
			})
		}
		begun := time.Now()
		wait.Wait()
		if passed := time.Since(begun); passed != time.Second {
			t.Errorf("the requests took %s", passed)
		}
		if _, err := post(t, client); err == nil || time.Since(begun) != time.Second+loginTimeout {
			t.Errorf("login without a timeout of the request ended after %s with %v", time.Since(begun), err)
		}
		hangs = false
		if _, err := post(t, client); err != nil {
			t.Error(err)
		}
	})
}

// TestRedirects checks that credentials are sent only to the scheme and host of the first request.
func TestRedirects(t *testing.T) {
	logins, to := 0, ""
	seen := map[string]string{}
	client := newTransport(counted(&logins, time.Hour), respond(func(r *http.Request) int { return http.StatusOK }))
	transport := client.Transport.(*loginTransport)
	transport.next = redirector{to: &to, seen: seen}
	for _, test := range []struct {
		to, want string
	}{{"http://server/other", "Bearer token-1"}, {"http://other/", ""}, {"https://server/", ""}} {
		to = test.to
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := seen[to]; got != test.want {
			t.Errorf("Authorization for %s = %q, want %q", to, got, test.want)
		}
	}
}

// redirector redirects http://server/ to an address, and records the Authorization headers.
type redirector struct {
	to   *string
	seen map[string]string
}

func (r redirector) RoundTrip(request *http.Request) (*http.Response, error) {
	r.seen[request.URL.String()] = request.Header.Get("Authorization")
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: request}
	if request.URL.String() == "http://server/" {
		response.StatusCode = http.StatusFound
		response.Header.Set("Location", *r.to)
	}
	return response, nil
}

// oauth2Client returns a client for a token endpoint, and the path of the client secret.
func oauth2Client(t *testing.T, endpoint http.HandlerFunc) (*http.Client, string) {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("Client-Secret-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	access := Access{OAuth2: &OAuth2{
		TokenURL: server.URL + "/token", ClientID: "hpad", ClientSecretFile: file,
		Scopes: []string{"metrics", "read"}, EndpointParams: map[string]string{"audience": "prom"},
	}}
	if errs := append(settings.Validate(&access), access.Validate()...); len(errs) > 0 {
		t.Fatal(errs)
	}
	client, err := access.NewClient("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client, file
}

// TestOAuth2 checks the token request, the header of requests, the renewal of expired tokens with a
// changed secret, and that tokens are hidden.
func TestOAuth2(t *testing.T) {
	var tokens atomic.Int32
	lifetime := 3600
	client, file := oauth2Client(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_ = r.ParseForm()
		want := map[string][]string{"grant_type": {"client_credentials"}, "scope": {"metrics read"}, "audience": {"prom"}}
		if diff := cmp.Diff(want, map[string][]string(r.PostForm)); diff != "" || user != "hpad" {
			t.Errorf("token request of %q (-want +got):\n%s", user, diff)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": fmt.Sprintf("Token-%d-for-%s", tokens.Add(1), password), "token_type": "bearer", "expires_in": lifetime,
		})
	})
	var header atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header.Store(r.Header.Get("Authorization")) }))
	t.Cleanup(server.Close)
	get := func() {
		response, err := client.Get(server.URL)
		if err != nil {
			t.Error(err)
			return
		}
		_ = response.Body.Close()
	}
	var wait sync.WaitGroup
	lifetime = 1 // shorter than renewBefore
	for range 10 {
		wait.Go(get)
	}
	wait.Wait()
	if got := tokens.Load(); got != 10 {
		t.Errorf("%d tokens for 10 requests with expired tokens", got)
	}
	lifetime = 3600
	if err := os.WriteFile(file, []byte("Client-Secret-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		wait.Go(get)
	}
	wait.Wait()
	if got := header.Load(); got != "Bearer Token-11-for-Client-Secret-2" {
		t.Errorf("Authorization = %q", got)
	}
	if shown := secret.Hide("got Token-11-for-Client-Secret-2 with Client-Secret-1"); shown != "got "+secret.Mark+" with "+secret.Mark {
		t.Errorf("tokens and secrets are shown as %s", shown)
	}
}

// TestOAuth2Errors checks that the errors name the token endpoint and the cause.
func TestOAuth2Errors(t *testing.T) {
	status, contentType, body := 0, "application/json", ""
	client, file := oauth2Client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	transport := client.Transport.(*loginTransport)
	check := func(want string) {
		t.Helper()
		transport.failed = time.Time{}
		_, err := client.Get("http://127.0.0.1:1/") //nolint:bodyclose // it fails
		login, ok := errors.AsType[*LoginError](err)
		if !ok || !strings.HasPrefix(login.Error(), `get an access token from "http://127.0.0.1:`) || !strings.Contains(login.Error(), want) {
			t.Errorf("error = %v, want it to contain %s", err, want)
		}
	}
	for _, test := range []struct {
		status int
		body   string
		want   string
	}{
		{401, `{"error":"invalid_client","error_description":"unknown client"}`, `server returned 401 Unauthorized: "invalid_client unknown client"`},
		{403, "<html>forbidden</html>", `server returned 403 Forbidden: "<html>forbidden</html>"`},
		{500, strings.Repeat("ä", 1000), `server returned 500 Internal Server Error: "ä`},
		{302, "", `server returned 302 Found: ""`},
		{200, `{"token_type":"bearer"}`, "missing access_token"},
		{200, `{`, "cannot parse json"},
	} {
		status, body = test.status, test.body
		check(test.want)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("read client_secret_file: open " + file)
}

func TestOAuth2Validate(t *testing.T) {
	access := Access{TokenFile: "/run/token", OAuth2: &OAuth2{
		TokenURL:       "http://me:secret@login/token",
		EndpointParams: map[string]string{"client_secret": "x", "scope": "y", "audience": "z"},
		TLS:            TLS{ServerName: "a:1"},
	}}
	want := []string{
		"oauth2: cannot be combined with token_file; keep one of them",
		"oauth2.client_id: is required: the ID of the client",
		"oauth2.client_secret_file: is required: a file with the secret of the client",
		"oauth2.endpoint_params.client_secret: must not contain a secret, because parameters appear in logs: use headers, or a key that names a file",
		"oauth2.endpoint_params.scope: must not be set: hpad sets it",
		"oauth2.token_url: must not contain credentials: use client_id and client_secret_file",
		`oauth2.tls.server_name = "a:1": must be a host name without a port`,
	}
	if diff := cmp.Diff(want, messages(append(settings.Validate(&access), access.Validate()...))); diff != "" {
		t.Errorf("Validate (-want +got):\n%s", diff)
	}
}
