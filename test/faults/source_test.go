package faults

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/web/webtest"
)

// vector returns a Prometheus response with the series. TIME is replaced by the time of the
// query.
func vector(result string) misbehavior {
	return func(_ *front, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.ReplaceAll(result, "TIME", r.FormValue("time")))
	}
}

func value(text string) misbehavior { return vector(`{"metric":{},"value":[TIME,"` + text + `"]}`) }

// sourceFaults are faults of a source. why matches the error that hpad reports.
var sourceFaults = []struct {
	name string
	how  misbehavior
	why  string
}{
	{"hangs", hang, "no answer within the timeout of 1s"},
	{"resets in the middle of the answer", reset, "connection reset|EOF"},
	{"trickles a byte a second", trickle, "no answer within the timeout of 1s"},
	{"answers a page with 200", say(200, "text/html", loginPage), `"text/html" instead of JSON`},
	{"answers 500", say(500, "text/plain", "boom"), "500 Internal Server Error"},
	{"answers 503", say(503, "text/plain", "starting"), "503 Service Unavailable"},
	{"answers 429 with Retry-After", say(429, "text/plain", "slow down", "Retry-After", "1"), "429 Too Many Requests"},
	{"redirects", say(302, "text/plain", "", "Location", "https://login.example.org/"), `302 Found to "https://login.example.org/"`},
	{"redirects to itself", say(307, "text/plain", "", "Location", "/api/v1/query"), "307 Temporary Redirect"},
	{"answers nothing", say(200, "application/json", ""), "200 OK with nothing in it"},
	{"answers NaN", value("NaN"), `not a number`},
	{"answers infinity", value("+Inf"), `infinite \(\+Inf`},
	{"answers minus infinity", value("-Inf"), `infinite \(-Inf`},
	{"answers a negative number", value("-5"), "below zero"},
	{"answers 1e300", value("1e300"), "value 1e\\+300 does not fit"},
	{"answers no series", vector(""), "answered with no value"},
	{"answers two series of the same labels", vector(`{"metric":{"a":"1"},"value":[TIME,"1"]},{"metric":{"a":"1"},"value":[TIME,"2"]}`), "two series with the same labels"},
	{"answers an old value", vector(`{"metric":{},"value":[1767225600,"1"]}`), "before the instant that was asked for"},
	{"answers a number as a number", vector(`{"metric":{},"value":[TIME,1]}`), "not what the Prometheus API answers"},
	{"answers a range", say(200, "application/json", `{"status":"success","data":{"resultType":"matrix","result":[]}}`), "range|matrix"},
	{"answers other JSON", say(200, "application/json", `[1,{"a":null}]`), "JSON|not what the Prometheus API answers"},
}

// TestSource runs all faults of sources at the same time, each with its own source.
func TestSource(t *testing.T) {
	w := newWorld(t, 100, 3)
	victims := map[string]*victim{}
	add := func(name string, f *front, more ...string) {
		source := fmt.Sprintf("s%d", len(victims))
		w.source(source, f, more...)
		v := &victim{world: w, front: f}
		v.name, v.number = w.autoscaler("steady", source)
		victims[name] = v
	}
	for _, fault := range sourceFaults {
		add(fault.name, newFront(t, w.prometheus))
	}
	const refuses, expired = "refuses", "shows an expired certificate"
	add(refuses, newFront(t, w.prometheus))
	secure, ca := newSecureFront(t, w.prometheus)
	add(expired, secure, fmt.Sprintf("tls = { ca_file = %q }\n", ca))

	p := w.start()
	p.Passes(w.steady[0], 2)
	before := uses(t, p)
	end := w.watch(t, p)
	t.Run("faults", func(t *testing.T) {
		for _, fault := range sourceFaults {
			t.Run(fault.name, func(t *testing.T) {
				t.Parallel()
				v := victims[fault.name]
				v.withstand(t, p, func() { v.misbehave(fault.how) }, v.heal, fault.why)
			})
		}
		t.Run(refuses, func(t *testing.T) {
			t.Parallel()
			v := victims[refuses]
			v.withstand(t, p, v.close, v.listen, "connection refused")
		})
		t.Run(expired, func(t *testing.T) {
			t.Parallel()
			v := victims[expired]
			v.withstand(t, p, func() { v.expire(true) }, func() { v.expire(false) }, "certificate has expired")
		})
	})
	end()
	comesBack(t, p, before)
	p.Stop()
}

// newSecureFront returns a front with TLS and the file of its CA certificate.
func newSecureFront(t testing.TB, honest http.Handler) (f *front, ca string) {
	t.Helper()
	dir := t.TempDir()
	authority := webtest.NewAuthority(t, dir, "authority")
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
