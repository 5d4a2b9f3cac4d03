package prometheus_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func newSource(t *testing.T, url string, maxAge time.Duration) *prometheus.Source {
	t.Helper()
	cfg := &prometheus.Config{URL: url, MaxAge: maxAge}
	cfg.SetDefaults()
	for _, mistake := range cfg.Validate() {
		t.Fatal(mistake)
	}
	source, err := prometheus.New("prom", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

func TestQuery(t *testing.T) {
	server := promtest.Start(t, "")
	server.Load(samples())
	source := newSource(t, server.URL, 0)
	number := func(value float64) sources.Vector {
		return sources.Vector{Series: []sources.Series{{Value: value, At: at}}}
	}
	for _, test := range []struct {
		name, query string
		want        sources.Vector
		wantError   string
	}{
		{name: "vector", query: `queue_messages_ready{queue="mail"}`, want: sources.Vector{Series: []sources.Series{{
			Labels: sources.LabelsOf(map[string]string{"__name__": "queue_messages_ready", "queue": "mail"}), Value: 0.5, At: at,
		}}}},
		{name: "aggregate", query: "sum(queue_messages_ready)", want: number(132.5)},
		{name: "scalar", query: "scalar(sum(queue_messages_ready))", want: number(132.5)},
		{name: "number", query: "7", want: number(7)},
		{name: "nothing", query: "nothing_has_this_name", want: sources.Vector{Series: []sources.Series{}}},
		{name: "matrix", query: "queue_messages_ready[5m]", wantError: "result is a range (matrix)"},
		{name: "string", query: `"text"`, wantError: "result is a string"},
		{name: "mistake", query: "sum(", wantError: "400 Bad Request: bad_data: invalid parameter"},
		{name: "no query", query: "", wantError: "400 Bad Request: bad_data: "},
		{name: "many to many", query: "queue_messages_ready * on() odd_value", wantError: "422 Unprocessable Entity: execution: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := source.Query(t.Context(), sources.Query{Text: test.query}, at)
			switch {
			case test.wantError != "":
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("Query(%q) answered the error %v, want it to hold %q", test.query, err, test.wantError)
				}
			case err != nil:
				t.Error(err)
			default:
				if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(sources.Vector{})); diff != "" {
					t.Errorf("Query(%q) (-want +got):\n%s", test.query, diff)
				}
			}
		})
	}
}

func TestQueryWarnings(t *testing.T) {
	server := promtest.Start(t, warning)
	got, err := newSource(t, server.URL, 0).Query(t.Context(), sources.Query{Text: "up"}, at)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) == 0 || !strings.Contains(got.Warnings[0], "remote_read") {
		t.Errorf("Query answered the warnings %q, want one about remote_read", got.Warnings)
	}
}

// The last sample of "silent" is two minutes old. A server that knows
// lookback_delta leaves it out for a max_age of one minute; of an older one Check
// says that it does not.
func TestMaxAge(t *testing.T) {
	for name, binary := range map[string]func(testing.TB) string{
		"installed": func(t testing.TB) string { return promtest.Binary(t, "prometheus") },
		"module":    promtest.ModuleBinary,
	} {
		t.Run(name, func(t *testing.T) {
			server := promtest.StartBinary(t, binary(t), "")
			server.Load(samples())
			source := newSource(t, server.URL, time.Minute)
			sentences, err := source.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			if slices.ContainsFunc(sentences, func(sentence string) bool {
				return strings.Contains(sentence, `max_age = "1m0s" has no effect`)
			}) {
				want = 1
			}
			got, err := source.Query(t.Context(), sources.Query{Text: "silent"}, at)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Series) != want || name == "module" && want != 0 {
				t.Errorf("Query answered %d series, want %d, as Check says %q", len(got.Series), want, sentences)
			}

			got, err = newSource(t, server.URL, 3*time.Minute).Query(t.Context(), sources.Query{Text: "silent"}, at)
			if err != nil || len(got.Series) != 1 {
				t.Errorf("Query answered %d series and the error %v for a max_age of 3m, want 1 and none", len(got.Series), err)
			}
		})
	}
}

func TestServerGoesAndComesBack(t *testing.T) {
	server := promtest.Start(t, "")
	source := newSource(t, server.URL, 0)
	ask := func() error {
		_, err := source.Query(t.Context(), sources.Query{Text: "vector(1)"}, at)
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := ask(); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), server.URL) {
		t.Errorf("Query answered the error %v without a server, want that %s refused the connection", err, server.URL)
	}
	server.Restart()
	if err := ask(); err != nil {
		t.Errorf("Query answered the error %v after the server came back", err)
	}
}
