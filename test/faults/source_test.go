package faults

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/internal/program"
)

// vector returns a misbehavior that sends a Prometheus response with the given series. It replaces
// TIME with the time of the query.
func vector(result string) misbehavior {
	return func(_ *front, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.ReplaceAll(result, "TIME", r.FormValue("time")))
	}
}

func value(text string) misbehavior { return vector(`{"metric":{},"value":[TIME,"` + text + `"]}`) }

// sourceFaults lists faults of a source. why matches the error that hpad reports.
var sourceFaults = []fault{
	{"hangs", hang, "no response within the timeout of 1s"},
	{"resets the connection during the response", reset, "connection reset|EOF"},
	{"trickles a byte a second", trickle, "no response within the timeout of 1s"},
	{"returns a page with 200", respond(200, "text/html", loginPage), `"text/html" instead of JSON`},
	{"returns 401", respond(401, "text/plain", "who are you?"), `401 Unauthorized: "who are you\?"; check the credentials`},
	{"returns 403", respond(403, "text/plain", "not for you"), `403 Forbidden: "not for you"; check the credentials`},
	{"returns 500", respond(500, "text/plain", "boom"), "500 Internal Server Error"},
	{"returns 503", respond(503, "text/plain", "starting"), "503 Service Unavailable"},
	{"returns 429 with Retry-After", respond(429, "text/plain", "slow down", "Retry-After", "1"), "429 Too Many Requests"},
	{"redirects", respond(302, "text/plain", "", "Location", "https://login.example.org/"), `302 Found to "https://login.example.org/"`},
	{"redirects to itself", respond(307, "text/plain", "", "Location", "/api/v1/query"), "307 Temporary Redirect"},
	{"returns an empty body", respond(200, "application/json", ""), "200 OK with an empty body"},
	{"returns NaN", value("NaN"), `not a number`},
	{"returns infinity", value("+Inf"), `infinite \(\+Inf`},
	{"returns minus infinity", value("-Inf"), `infinite \(-Inf`},
	{"returns a negative number", value("-5"), "negative values are rejected"},
	{"returns 1e300", value("1e300"), "value 1e\\+300 does not fit"},
	{"returns no series", vector(""), "returned no value"},
	{"returns two series with the same labels", vector(`{"metric":{"a":"1"},"value":[TIME,"1"]},{"metric":{"a":"1"},"value":[TIME,"2"]}`), "two series with the same labels"},
	{"returns an old value", vector(`{"metric":{},"value":[1767225600,"1"]}`), "before the requested instant"},
	{"returns a value as a number", vector(`{"metric":{},"value":[TIME,1]}`), "not from the Prometheus API"},
	{"returns a range", respond(200, "application/json", `{"status":"success","data":{"resultType":"matrix","result":[]}}`), "range|matrix"},
	{"returns other JSON", respond(200, "application/json", `[1,{"a":null}]`), "JSON|not from the Prometheus API"},
}

// TestSource runs all faults of sources at the same time, each with its own source.
func TestSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, 3)
	sources := 0
	add := func(f *front, more ...string) *victim {
		source := fmt.Sprintf("s%d", sources)
		sources++
		w.source(source, f, more...)
		v := &victim{world: w, front: f}
		v.name, v.number = w.autoscaler("steady", source)
		return v
	}
	var tests []subtest
	for _, fault := range sourceFaults {
		tests = append(tests, add(newFront(t, w.prometheus)).subtest(fault))
	}
	tests = append(tests, connectionFaults(t, w.prometheus, add)...)
	w.runFaults(t, append(tests, tokenTests(t, w.prometheus, add)...))
}

// connectionFaults returns tests in which hpad cannot connect to the server.
func connectionFaults(t *testing.T, honest http.Handler, add func(f *front, more ...string) *victim) []subtest {
	t.Helper()
	refusing := add(newFront(t, honest))
	secure, ca := newSecureFront(t, honest)
	expired := add(secure, fmt.Sprintf("tls = { ca_file = %q }\n", ca))
	return []subtest{
		{"refuses connections", func(t *testing.T, p *program.Program) {
			refusing.withstand(t, p, refusing.close, refusing.listen, "connection refused")
		}},
		{"has an expired certificate", func(t *testing.T, p *program.Program) {
			expired.withstand(t, p, func() { expired.expire(true) }, func() { expired.expire(false) }, "certificate has expired")
		}},
	}
}

// newSecureFront returns a front with TLS and the path of its CA certificate.
func newSecureFront(t testing.TB, honest http.Handler) (f *front, ca string) {
	t.Helper()
	dir := t.TempDir()
	authority := webtest.NewCA(t, dir, "authority")
	f = &front{t: t, honest: honest, tls: map[bool]tls.Certificate{}}
	for good, issue := range map[bool]func(testing.TB, string) (string, string){true: authority.Issue, false: authority.IssueExpired} {
		certificate, key := issue(t, fmt.Sprintf("server-%t", good))
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		f.tls[good] = pair
	}
	f.listen()
	t.Cleanup(f.close)
	return f, filepath.Join(dir, "authority.crt")
}

// expire switches between the expired and the valid certificate.
func (f *front) expire(expired bool) {
	f.mu.Lock()
	f.expired = expired
	server := f.server
	f.mu.Unlock()
	server.CloseClientConnections() // forces new handshakes
}
