package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

// tokenFaults lists faults of the token endpoint of a source with OAuth 2.
var tokenFaults = []fault{
	{"token endpoint hangs", hang, noToken + "(context deadline exceeded|no complete document within|wait for the login of another request)"},
	{"token endpoint trickles a byte a second", trickle, noToken + ".*(context deadline exceeded|no complete document within)"},
	{"token endpoint resets the connection", reset, noToken + ".*(connection reset|EOF)"},
	{"token endpoint returns 500", respond(500, "text/plain", "boom"), noToken + `server returned 500 Internal Server Error: "boom"`},
	{"token endpoint rejects the client", respond(401, "application/json", `{"error":"invalid_client"}`), noToken + `server returned 401 Unauthorized: "invalid_client"`},
	{"token endpoint returns a page with 200", respond(200, "text/html", loginPage), noToken + ".*(missing access_token|cannot parse)"},
	{"token endpoint redirects", respond(302, "text/plain", "", "Location", "https://login.example.org/"), noToken + "server returned 302 Found"},
}

// noToken matches the start of the errors about a token endpoint.
const noToken = `get an access token from "https?://127.0.0.1:\d+/token": `

// tokens issues tokens that are valid for one request.
type tokens struct {
	mu    sync.Mutex
	last  int
	valid map[string]bool
}

// ServeHTTP is the token endpoint. The tokens expire so soon that each request gets a new token.
func (s *tokens) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	token := "Token-for-one-request-" + strconv.Itoa(s.last)
	s.valid[token] = true
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":1}`, token)
}

// protect forwards requests with a valid token.
func (s *tokens) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		valid := s.valid[token]
		delete(s.valid, token)
		s.mu.Unlock()
		if !valid {
			http.Error(w, "invalid token "+token, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tokenTests returns tests in which the token endpoint of a source has a fault.
func tokenTests(t *testing.T, honest http.Handler, add func(f *front, more ...string) *victim) (tests []subtest) {
	t.Helper()
	password := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(password, []byte("Secret-of-the-client"), 0o600); err != nil {
		t.Fatal(err)
	}
	protected := func(source, endpoint *front, more string) *victim {
		v := add(source, fmt.Sprintf(
			"oauth2 = { client_id = \"hpad\", client_secret_file = %q, token_url = \"%s/token\"%s }\n", password, endpoint.url(), more))
		v.front = endpoint
		return v
	}
	for _, fault := range tokenFaults {
		s := &tokens{valid: map[string]bool{}}
		tests = append(tests, protected(newFront(t, s.protect(honest)), newFront(t, s), "").subtest(fault))
	}
	s := &tokens{valid: map[string]bool{}}
	rejecting := newFront(t, s.protect(honest))
	repeating := protected(rejecting, newFront(t, s), "")
	repeating.front = rejecting
	s = &tokens{valid: map[string]bool{}}
	refusing := protected(newFront(t, s.protect(honest)), newFront(t, s), "")
	s = &tokens{valid: map[string]bool{}}
	secure, ca := newSecureFront(t, s)
	expired := protected(newFront(t, s.protect(honest)), secure, fmt.Sprintf(", tls = { ca_file = %q }", ca))
	return append(
		tests,
		repeating.subtest(fault{"repeats the credentials in its response", func(_ *front, w http.ResponseWriter, r *http.Request) {
			_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			http.Error(w, token+" is no token for Secret-of-the-client", http.StatusUnauthorized)
		}, `401 Unauthorized( instead of 200 OK)?: "<redacted> is no token for <redacted>"`}),
		subtest{"token endpoint refuses connections", func(t *testing.T, p *program.Program) {
			refusing.withstand(t, p, refusing.close, refusing.listen, noToken+".*connection refused")
		}},
		subtest{"token endpoint has an expired certificate", func(t *testing.T, p *program.Program) {
			expired.withstand(t, p, func() { expired.expire(true) }, func() { expired.expire(false) }, noToken+".*certificate has expired")
		}},
	)
}
