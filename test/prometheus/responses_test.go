// Package prometheus_test tests sources/prometheus against a real server.
package prometheus_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/test/prometheus/promtest"
)

var update = flag.Bool("update", false, "record the server's responses in sources/prometheus/testdata")

// recorded is the directory of the recorded responses, which unit tests use.
const recorded = "../../sources/prometheus/testdata"

// at is the time of every query.
var at = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// samples returns the servers' data in OpenMetrics format.
func samples() string {
	var text bytes.Buffer
	for _, metric := range []struct{ name, kind, series, value string }{
		{"queue_messages_ready", "gauge", `{queue="checkout"}`, "42"},
		{"queue_messages_ready", "", `{queue="mail"}`, "0.5"},
		{"queue_messages_ready", "", `{queue="schrödinger\n\"x\""}`, "90.00000000000001"},
		{"odd_value", "gauge", `{kind="infinite"}`, "+Inf"},
		{"odd_value", "", `{kind="negative"}`, "-1.5"},
		{"odd_value", "", `{kind="not a number"}`, "NaN"},
	} {
		if metric.kind != "" {
			fmt.Fprintf(&text, "# TYPE %s %s\n", metric.name, metric.kind)
		}
		for _, age := range []time.Duration{2 * time.Minute, time.Minute, 0} {
			fmt.Fprintf(&text, "%s%s %s %d\n", metric.name, metric.series, metric.value, at.Add(-age).Unix())
		}
	}
	// At the time of the query, the last sample of silent is two minutes old.
	fmt.Fprintf(&text, "# TYPE silent gauge\nsilent 7 %d\n# EOF\n", at.Add(-2*time.Minute).Unix())
	return text.String()
}

// warning is a configuration that causes a warning in every response, because nothing listens on
// port 1.
const warning = `
remote_read:
  - url: http://127.0.0.1:1/read
    read_recent: true
`

// TestResponses compares the recorded responses with those of a real server. The texts of errors
// and warnings may differ between versions.
func TestResponses(t *testing.T) {
	plain := promtest.Start(t, "")
	plain.Load(samples())
	warns := promtest.Start(t, warning)
	warns.Load(samples())

	for _, test := range []struct {
		name   string
		server *promtest.Server
		query  string
	}{
		{"200-vector", plain, `queue_messages_ready`},
		{"200-odd", plain, `odd_value`},
		{"200-empty", plain, `nothing_has_this_name`},
		{"200-sum", plain, `sum(queue_messages_ready)`},
		{"200-scalar", plain, `scalar(sum(queue_messages_ready))`},
		{"200-scalar-nan", plain, `scalar(nothing_has_this_name)`},
		{"200-string", plain, `"text"`},
		{"200-matrix", plain, `queue_messages_ready[5m]`},
		{"200-warnings", warns, `queue_messages_ready`},
		{"400-parse", plain, `sum(`},
		{"422-execution", plain, `queue_messages_ready * on() odd_value`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := send(t, test.server, test.query)
			file := filepath.Join(recorded, test.name+".json")
			if *update {
				if err := os.WriteFile(file, got.body, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var status int
			if _, err := fmt.Sscanf(test.name, "%d-", &status); err != nil {
				t.Fatal(err)
			}
			if want := (response{status, body}); got.String() != want.String() {
				t.Errorf("response differs (-recorded +server; -update records it):\n%s",
					cmp.Diff(want.String(), got.String()))
			}
		})
	}
}

type response struct {
	status int
	body   []byte
}

// String returns the parts of a response that are equal in every version, indented.
func (a response) String() string {
	var body struct {
		Status    string `json:"status"`
		Data      any    `json:"data"`
		ErrorType string `json:"errorType"`
		Warnings  []any  `json:"warnings"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		return fmt.Sprintf("%d %s (%v)", a.status, a.body, err)
	}
	for i := range body.Warnings {
		body.Warnings[i] = "warning text"
	}
	text, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d %s", a.status, text)
}

func send(t *testing.T, server *promtest.Server, query string) response {
	t.Helper()
	r, err := http.PostForm(server.URL+"/api/v1/query", url.Values{
		"query": {query},
		"time":  {at.Format(time.RFC3339)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{r.StatusCode, body}
}
