package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/sources"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// at is the instant for which the responses in testdata were recorded.
var at = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// newSource builds a source that is closed when the test ends. edit may change its
// configuration.
func newSource(t testing.TB, url string, edit func(*Config)) *Source {
	t.Helper()
	cfg := &Config{URL: url}
	if edit != nil {
		edit(cfg)
	}
	cfg.SetDefaults()
	for _, fieldErr := range cfg.Validate() {
		t.Fatal(fieldErr)
	}
	source, err := New("prom", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

// serve runs an HTTP server for the test.
func serve(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// answering returns a handler with a fixed response.
func answering(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// recorded returns a handler with the recorded response of a real server. The name starts with
// the status.
func recorded(t testing.TB, name string) http.HandlerFunc {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	status, err := strconv.Atoi(name[:3])
	if err != nil {
		t.Fatal(err)
	}
	return answering(status, "application/json", string(body))
}

func TestQueryRecorded(t *testing.T) {
	queue := func(name string, value float64) sources.Series {
		return sources.Series{Labels: sources.LabelsOf(map[string]string{"__name__": "queue_messages_ready", "queue": name}), Value: value, At: at}
	}
	odd := func(kind string, value float64) sources.Series {
		return sources.Series{Labels: sources.LabelsOf(map[string]string{"__name__": "odd_value", "kind": kind}), Value: value, At: at}
	}
	queues := []sources.Series{queue("checkout", 42), queue("mail", 0.5), queue("schrödinger\n\"x\"", 90.00000000000001)}
	for _, test := range []struct {
		name string
		want sources.Vector
	}{
		{"200-vector", sources.Vector{Series: queues}},
		{"200-odd", sources.Vector{Series: []sources.Series{odd("infinite", math.Inf(1)), odd("negative", -1.5), odd("not a number", math.NaN())}}},
		{"200-empty", sources.Vector{Series: []sources.Series{}}},
		{"200-sum", sources.Vector{Series: []sources.Series{{Value: 132.5, At: at}}}},
		{"200-scalar", sources.Vector{Series: []sources.Series{{Value: 132.5, At: at}}}},
		{"200-scalar-nan", sources.Vector{Series: []sources.Series{{Value: math.NaN(), At: at}}}},
		{"200-warnings", sources.Vector{Remedy: `set on_warnings = "accept" in [sources.prom]`, Series: queues, Warnings: []string{
			`remote_read: error sending request: Post "http://127.0.0.1:1/read": dial tcp 127.0.0.1:1: connect: connection refused`,
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := newSource(t, serve(t, recorded(t, test.name)).URL, nil)
			got, err := source.Query(t.Context(), sources.Query{Text: "up"}, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(sources.Vector{})); diff != "" {
				t.Errorf("Query() result (-want +got):\n%s", diff)
			}
		})
	}
}

// vectorOf returns a successful response of the API with the series.
func vectorOf(series string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + series + `]}}`
}

// success is a response with one series.
var success = vectorOf(`{"metric":{},"value":[1767225600,"1"]}`)

// testedAnswerBytes replaces maxAnswerBytes in tests.
const testedAnswerBytes = 8 << 20

// huge returns a response that is larger than testedAnswerBytes.
func huge() string {
	return `{"status":"success","junk":[0` + strings.Repeat(`,"`+strings.Repeat("0", 2000)+`"`, testedAnswerBytes/1000)
}

// TestQueryForms checks that valid responses in unusual forms are read: different orders,
// unknown members, nulls and spaces.
func TestQueryForms(t *testing.T) {
	want := sources.Vector{Series: []sources.Series{{Labels: sources.LabelsOf(map[string]string{"a": "é\n"}), Value: 1.5, At: at}}}
	for name, handler := range map[string]http.HandlerFunc{
		"result first":  answering(200, "", `{"data":{"result":[{"value":[1767225600,"1.5"],"metric":{"a":"é\n"}}],"resultType":"vector"},"status":"success"}`),
		"unknown":       answering(200, "", `{"stats":{"a":[1,{}]},"status":"success","data":{"x":null,"resultType":"vector","result":[{"metric":{"a":"é\n"},"value":[1767225600,"1.5"],"group":1}]},"isPartial":false}`),
		"nulls":         answering(200, "", `{"status":"success","warnings":null,"data":{"resultType":"vector","result":[{"metric":{"a":"\u00e9\n","none":""},"value":[1767225600.000,"1.5"],"histogram":null}]}}`),
		"other numbers": answering(200, "", " {\n\"status\" : \"success\",\"data\" : {\"resultType\": \"vector\",\t\"result\": [ {\"metric\": {\"a\": \"é\\n\"}, \"value\": [ 1.7672256e9, \"15e-1\" ] } ] } }\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newSource(t, serve(t, handler).URL, nil).Query(t.Context(), sources.Query{Text: "up"}, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(sources.Vector{})); diff != "" {
				t.Errorf("Query() result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQueryTimeTolerance checks that time_tolerance allows servers to return different times.
func TestQueryTimeTolerance(t *testing.T) {
	source := newSource(t, serve(t, recorded(t, "200-sum")).URL, func(c *Config) { c.TimeTolerance = 30 * time.Second })
	for offset, accepted := range map[time.Duration]bool{
		-31 * time.Second: false, -30 * time.Second: true, 0: true, 300 * time.Microsecond: true, 30 * time.Second: true, 31 * time.Second: false,
	} {
		if _, err := source.Query(t.Context(), sources.Query{Text: "up"}, at.Add(offset)); (err == nil) != accepted {
			t.Errorf("error of a result at offset %s = %v, want accepted: %t", offset, err, accepted)
		}
	}
}

// TestQueryLabels checks that a large result contains the named labels, and all labels of the
// series that error messages may contain.
func TestQueryLabels(t *testing.T) {
	var body strings.Builder
	for i := range 1000 {
		value := "1"
		if i == 900 {
			value = "NaN"
		}
		fmt.Fprintf(&body, `,{"metric":{"__name__":"up","id":"%d","job":"shop"},"value":[1767225600,"%s"]}`, i, value)
	}
	source := newSource(t, serve(t, answering(200, "", vectorOf(body.String()[1:]))).URL, nil)
	vector, err := source.Query(t.Context(), sources.Query{Text: "up", Labels: []string{"id", "absent"}}, at)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{
		0: `{__name__="up", id="0", job="shop"}`, 99: `{__name__="up", id="99", job="shop"}`, 100: `{id="100"}`,
		899: `{id="899"}`, 900: `{__name__="up", id="900", job="shop"}`, 999: `{id="999"}`,
	} {
		if got := vector.Series[i].Labels.String(); got != want {
			t.Errorf("labels of series %d = %s, want %s", i, got, want)
		}
	}
}

func TestQueryErrors(t *testing.T) {
	const html = "<html>\n<head><title>Sign in</title></head>\n</html>"
	long := strings.Repeat("0123456789", 100)
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"matrix", recorded(t, "200-matrix"), "result is a range (matrix), want one value for each series; " +
			"remove the brackets, or put a function such as rate() or max_over_time() around them"},
		{"string", recorded(t, "200-string"), "result is a string, want a vector or a scalar"},
		{"parse error", recorded(t, "400-parse"), `server returned 400 Bad Request: bad_data: invalid parameter "query": 1:5: parse error: unclosed left parenthesis`},
		{"execution error", recorded(t, "422-execution"), "server returned 422 Unprocessable Entity: execution: found duplicate series for the match group {}"},
		{
			"query timed out",
			answering(503, "application/json", `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`),
			"server returned 503 Service Unavailable: timeout: query timed out in expression evaluation",
		},
		{
			"error with status 200",
			answering(200, "application/json", `{"status":"error","errorType":"internal","error":"oops"}`),
			"server returned internal: oops",
		},
		{"unauthorized", answering(401, "text/plain", "Unauthorized\n"), `server returned 401 Unauthorized: "Unauthorized"; check the credentials, headers and tls`},
		{"forbidden", answering(403, "text/plain", ""), "server returned 403 Forbidden: (empty body); check the credentials, headers and tls"},
		{
			"web page from a proxy",
			answering(200, "text/html", html),
			`server returned 200 OK with "text/html" instead of JSON from the API; check that url is the address of a Prometheus API: "<html> <head><title>Sign in</title></head> </html>"`,
		},
		{
			"JSON from another server",
			answering(200, "application/json; charset=utf-8", `["up"]`),
			`server returned 200 OK with "application/json; charset=utf-8" instead of JSON from the API; check that url is the address of a Prometheus API: "[\"up\"]"`,
		},
		{"error page from a proxy", answering(502, "text/html", html), `server returned 502 Bad Gateway: "<html> <head><title>Sign in</title></head> </html>"`},
		{"long error page", answering(500, "text/plain", long), `server returned 500 Internal Server Error: "` + long[:maxShownAnswer-1] + `…"`},
		{"not found", answering(404, "text/plain", "404 page not found"), `server returned 404 Not Found for POST "http://127.0.0.1:`},
		{
			"redirect",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://user:secret@login.example.org/start?token=secret", http.StatusFound)
			},
			`server redirected with 302 Found to "https://login.example.org/start"; set url to the address of the API`,
		},
		{"empty body", answering(200, "application/json", " \n"), "server returned 200 OK with an empty body; check that url is the address of a Prometheus API"},
		{"no content", answering(204, "", ""), "server returned 204 No Content instead of 200 OK: (empty body)"},
		{"created", answering(201, "application/json", success), "server returned 201 Created instead of 200 OK: "},
		{"non-authoritative", answering(203, "application/json", success), "server returned 203 Non-Authoritative Information instead of 200 OK: "},
		{"partial content", answering(206, "application/json", success), "server returned 206 Partial Content instead of 200 OK: "},
		{"an hour old", answering(200, "application/json", vectorOf(`{"metric":{},"value":[1767222000,"1"]}`)), "result has the time 2025-12-31T23:00:00Z, 1h0m0s before the requested instant"},
		{"an hour ahead", answering(200, "application/json", vectorOf(`{"metric":{},"value":[1767229200,"1"]}`)), "result has the time 2026-01-01T01:00:00Z, 1h0m0s after the requested instant"},
		{"a millisecond old", answering(200, "application/json", vectorOf(`{"metric":{},"value":[1767225599.999,"1"]}`)), "result has the time 2025-12-31T23:59:59.999Z, 1ms before the requested instant"},
		{"one series old", answering(200, "application/json", vectorOf(`{"metric":{"a":"1"},"value":[1767225600,"1"]},{"metric":{"a":"2"},"value":[1767225585,"1"]}`)), "result has the time 2025-12-31T23:59:45Z, 15s before"},
		{"scalar an hour old", answering(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[1767222000,"1"]}}`), "result has the time 2025-12-31T23:00:00Z, 1h0m0s before"},
		{"same labels", answering(200, "application/json", vectorOf(`{"metric":{"a":"1","b":"2"},"value":[1767225600,"1"]},{"metric":{"b":"2","a":"1"},"value":[1767225600,"3"]}`)), `result contains two series with the same labels {a="1", b="2"}`},
		{"same labels except for an empty label", answering(200, "application/json", vectorOf(`{"metric":{"a":"1","b":""},"value":[1767225600,"1"]},{"metric":{"a":"1"},"value":[1767225600,"3"]}`)), `result contains two series with the same labels {a="1"}`},
		{"two series without labels", answering(200, "application/json", vectorOf(`{"metric":{},"value":[1767225600,"1"]},{"value":[1767225600,"3"]}`)), "result contains two series with the same labels {}"},
		{"unknown status", answering(200, "application/json", strings.Replace(success, "success", "partial", 1)), "response is not from the Prometheus API: "},
		{"no status", answering(200, "application/json", strings.Replace(success, `"status":"success",`, "", 1)), "response is not from the Prometheus API: "},
		{"empty scalar", answering(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[]}}`), "result contains a series or a scalar without a value"},
		{"scalar without a value", answering(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[1767225600]}}`), "result contains a series or a scalar without a value"},
		{"scalar without a time", answering(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[0,"0"]}}`), "result contains no time"},
		{"number as a value", answering(200, "application/json", vectorOf(`{"metric":{},"value":[1767225600,1]}`)), "response is not from the Prometheus API: "},
		{"number as a label", answering(200, "application/json", vectorOf(`{"metric":{"a":1},"value":[1767225600,"1"]}`)), "response is not from the Prometheus API: "},
		{"scalar result with type vector", answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[1767225600,"1"]}}`), "response is not from the Prometheus API: "},
		{"vector result with type scalar", answering(200, "application/json", strings.Replace(success, "vector", "scalar", 1)), "response is not from the Prometheus API: "},
		{"type after a vector", answering(200, "application/json", `{"data":{"result":[{"metric":{},"value":[1767225600,"1"]}],"resultType":"scalar"},"status":"success"}`), "response is not from the Prometheus API: "},
		{"error after a result", answering(200, "application/json", `{"data":{"resultType":"vector","result":[]},"status":"error","errorType":"timeout","error":"halfway"}`), "server returned timeout: halfway"},
		{"two results", answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[],"result":[]}}`), "response is not from the Prometheus API: "},
		{"data after the end", answering(200, "application/json", success+"{}"), "response is truncated or invalid: "},
		{"huge text", answering(200, "application/json", vectorOf(`{"metric":{"a":"`+strings.Repeat("x", 3<<20)+`"},"value":[1767225600,"1"]}`)), "response contains a string of more than 1 MiB"},
		{"too many labels", answering(200, "application/json", vectorOf(`{"metric":{"a":"1"`+strings.Repeat(`,"b":"`+long+`"`, 1100)+`},"value":[1767225600,"1"]}`)), "result contains a series with more than 1 MiB of labels"},
		{"unknown compression", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, success)
		}, `server returned Content-Encoding "br", which was not requested`},
		{"truncated JSON", answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"val`), `response is truncated or invalid: "{\"status\":\"success\",\"data\":`},
		{"other JSON", answering(200, "application/json", `{"hello":"world"}`), `response is not from the Prometheus API: "{\"hello\":\"world\"}"`},
		{"no data", answering(200, "application/json", `{"status":"success"}`), "response is not from the Prometheus API: "},
		{"null data", answering(200, "application/json", `{"status":"success","data":null}`), "response is not from the Prometheus API: "},
		{"null scalar", answering(200, "application/json", `{"status":"success","data":{"resultType":"scalar","result":null}}`), "response is not from the Prometheus API: "},
		{
			"series without a value",
			answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"1"]},{"metric":{}}]}}`),
			"result contains a series or a scalar without a value",
		},
		{
			"value that is not a number",
			answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"many"]}]}}`),
			"response is not from the Prometheus API: ",
		},
		{
			"histogram",
			answering(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"latency"},`+
				`"histogram":[1767225600,{"count":"3","sum":"1.5","buckets":[[0,"0.5","1","3"]]}]}]}}`),
			"series latency is a native histogram, want a number; use histogram_quantile()",
		},
		{
			"connection closed",
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"EOF",
		},
		{
			"response truncated",
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, `{"status":"success"`)
			},
			"unexpected EOF",
		},
		{
			"response too large",
			answering(200, "application/json", huge()),
			"response is larger than 8 MiB; make the query more selective or aggregate more",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serve(t, test.handler)
			source := newSource(t, server.URL, func(c *Config) { c.Headers = map[string]string{"X-Secret": "hunter2"} })
			source.maxAnswer = testedAnswerBytes
			vector, err := source.Query(t.Context(), sources.Query{Text: "sum(\n  up)"}, at)
			if err == nil {
				t.Fatalf("Query() = %v, want an error", vector)
			}
			prefix := fmt.Sprintf("source %q: query %q at %q: ", "prom", "sum( up)", server.URL)
			if rest, ok := strings.CutPrefix(err.Error(), prefix); !ok || !strings.HasPrefix(rest, test.want) {
				t.Errorf("Query() =\n%v\nwant an error that begins with\n%s%s", err, prefix, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
				t.Errorf("error %q contains a secret or several lines, or is too long", err)
			}
		})
	}
}

// hanging returns a server that never responds, and a channel on which it sends when a request
// arrives.
func hanging(t testing.TB) (server *httptest.Server, arrived chan struct{}) {
	t.Helper()
	arrived = make(chan struct{}, 100)
	return serve(t, func(_ http.ResponseWriter, r *http.Request) {
		// The server notices that the client has left only after it has read the whole request.
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}), arrived
}

func TestQueryTimeout(t *testing.T) {
	server, _ := hanging(t)
	source := newSource(t, server.URL, func(c *Config) { c.Timeout = 20 * time.Millisecond })
	_, err := source.Query(t.Context(), sources.Query{Text: "up"}, at)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no response within the timeout of 20ms (sources.prom.timeout)") {
		t.Errorf("Query() = %v, want DeadlineExceeded with the timeout of 20ms", err)
	}
}

func TestQueryContext(t *testing.T) {
	server, arrived := hanging(t)
	source := newSource(t, server.URL, nil)

	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(errors.New("shutdown"))
	}()
	if _, err := source.Query(ctx, sources.Query{Text: "up"}, at); !errors.Is(err, context.Canceled) {
		t.Errorf("Query() with a canceled context = %v, want context.Canceled", err)
	}

	ctx, cancelTimeout := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelTimeout()
	_, err := source.Query(ctx, sources.Query{Text: "up"}, at)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "within the timeout") {
		t.Errorf("Query() with an expired context = %v, want DeadlineExceeded without the source's timeout", err)
	}
}

func TestQueryMaxConcurrent(t *testing.T) {
	const most, queries = 3, 12
	var under, peak atomic.Int32
	arrived, answer := make(chan struct{}, queries), make(chan struct{})
	reply := recorded(t, "200-sum")
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		now := under.Add(1)
		defer under.Add(-1)
		for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
		}
		arrived <- struct{}{}
		<-answer
		reply(w, r)
	})
	source := newSource(t, server.URL, func(c *Config) { c.MaxConcurrent = most })

	results := make(chan error, queries)
	for range queries {
		go func() {
			_, err := source.Query(t.Context(), sources.Query{Text: "up"}, at)
			results <- err
		}()
	}
	for range most {
		<-arrived
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := source.Query(ctx, sources.Query{Text: "up"}, at)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for 3 other queries (max_concurrent)") {
		t.Errorf("Query() with all slots in use = %v, want an error that it waited for 3 other queries", err)
	}
	close(answer)
	for range queries {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if peak.Load() != most {
		t.Errorf("maximum concurrent queries = %d, want %d", peak.Load(), most)
	}
}

func TestQueryRequest(t *testing.T) {
	var got *http.Request
	reply := recorded(t, "200-sum")
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		got = r
		reply(w, r)
	})
	source := newSource(t, server.URL+"/prefix/", func(c *Config) {
		c.MaxAge = 90 * time.Second
		c.Headers = map[string]string{"X-Scope-OrgID": "shop"}
	})
	if _, err := source.Query(t.Context(), sources.Query{Text: "sum(up)"}, at.Add(1500*time.Millisecond)); err == nil {
		t.Fatal("Query accepted a result of another instant")
	}
	if got.Method != http.MethodPost || got.URL.String() != "/prefix/api/v1/query" {
		t.Errorf("request = %s %s, want POST /prefix/api/v1/query", got.Method, got.URL)
	}
	form := map[string][]string{"query": {"sum(up)"}, "time": {"1767225601.5"}, "lookback_delta": {"1m30s"}}
	if diff := cmp.Diff(form, map[string][]string(got.PostForm)); diff != "" {
		t.Errorf("form of the request (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"X-Scope-OrgID": "shop", "User-Agent": "hpad", "Authorization": ""} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("header %s = %q, want %q", name, value, want)
		}
	}

	if _, err := source.Query(t.Context(), sources.Query{Text: "sum(up)", MaxAge: 20 * time.Second}, at); err != nil {
		t.Fatal(err)
	}
	if age := got.PostForm.Get("lookback_delta"); age != "20s" {
		t.Errorf("lookback_delta of a query with its own max_age = %q, want 20s", age)
	}

	source = newSource(t, server.URL, nil)
	if _, err := source.Query(t.Context(), sources.Query{Text: "up"}, at); err != nil {
		t.Fatal(err)
	}
	if got.PostForm.Has("lookback_delta") {
		t.Errorf("lookback_delta without max_age = %q, want none", got.PostForm.Get("lookback_delta"))
	}
}

// TestQueryFallsBackToGet checks that if a proxy rejects POST, each query is a GET from then
// on, until GET is rejected too. The error is that of the GET.
func TestQueryFallsBackToGet(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented} {
		reply := recorded(t, "200-sum")
		var methods []string
		// statuses contains the statuses of rejected methods, or 0.
		var statuses map[string]int
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if status := statuses[r.Method]; status != 0 {
				http.Error(w, "no "+r.Method, status)
				return
			}
			if got := r.FormValue("query"); got != "up" || r.URL.Query().Get("dedup") != "true" {
				t.Errorf("query in the %s = %q with the parameters %s", r.Method, got, r.URL.Query())
			}
			reply(w, r)
		})
		source := newSource(t, server.URL, func(c *Config) { c.Params = map[string]string{"dedup": "true"} })
		for _, step := range []struct {
			statuses   map[string]int
			want, fail string
		}{
			{map[string]int{"POST": status}, "POST GET", ""},
			{map[string]int{"POST": status}, "GET", ""},
			{map[string]int{"POST": status, "GET": 500}, "GET", `500 Internal Server Error: "no GET"`},
			{map[string]int{"POST": status, "GET": 401}, "GET", `401 Unauthorized: "no GET"`},
			{map[string]int{"GET": status}, "GET", `"no GET"`},
			{map[string]int{"GET": status}, "POST", ""},
			{map[string]int{"POST": status, "GET": 403}, "POST GET", `403 Forbidden: "no GET"`},
			{map[string]int{"POST": status, "GET": 403}, "POST GET", `403 Forbidden: "no GET"`},
			{map[string]int{"POST": status}, "POST GET", ""},
		} {
			methods, statuses = nil, step.statuses
			query(t, source, step.fail)
			if got := strings.Join(methods, " "); got != step.want {
				t.Errorf("requests with statuses %v = %s, want %s", step.statuses, got, step.want)
			}
		}
	}
}

// TestQueryMethod checks that a configured method is not replaced.
func TestQueryMethod(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		var methods []string
		status := http.StatusForbidden
		reply := recorded(t, "200-sum")
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if status != http.StatusOK {
				w.WriteHeader(status)
				return
			}
			reply(w, r)
		})
		source := newSource(t, server.URL, func(c *Config) { c.Method = method })
		query(t, source, "403 Forbidden")
		status = http.StatusOK
		query(t, source, "")
		if got, want := strings.Join(methods, " "), method+" "+method; got != want {
			t.Errorf("requests with method %s = %s", method, got)
		}
	}
}

// TestNotFoundNamesURL checks that the error of a 404 names the requested URL, which is longer
// than the configured URL.
func TestNotFoundNamesURL(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			http.NotFound(w, r)
		})
		_, err := newSource(t, server.URL+"/elsewhere/", nil).Query(t.Context(), sources.Query{Text: "up"}, at)
		want := fmt.Sprintf(`server returned 404 Not Found for %s "%s/elsewhere/api/v1/query": "404 page not found"`, method, server.URL)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Query() = %v, want %s", err, want)
		}
	}
}
