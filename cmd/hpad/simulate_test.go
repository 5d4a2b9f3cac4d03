package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestInterruptedRecording ends the connection in the middle of a recording. Nothing is written.
func TestInterruptedRecording(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, `{"status":"success","data":{"recording":{"name":"web","ticks":[`)
	}))
	defer server.Close()
	for _, command := range []string{"simulate", "tune"} {
		for _, format := range []string{"table", "json"} {
			var out, failed bytes.Buffer
			code := run(t.Context(), []string{command, "web", "--server", server.URL, "-o", format}, streams{in: strings.NewReader(""), out: &out, err: &failed})
			if code != exitFailure || out.Len() > 0 || strings.Count(failed.String(), "hpad: error: ") != 1 || !strings.Contains(failed.String(), "unexpected EOF") {
				t.Errorf("hpad %s -o %s: exit code %d, output %q, error %q", command, format, code, &out, &failed)
			}
		}
	}
}

func TestSplitSettings(t *testing.T) {
	for text, want := range map[string][]string{
		"max_replicas=30": {"max_replicas=30"},
		"a=1, b=2":        {"a=1", "b=2"},
		`p=[{ type = "a,b", value = 1 }, {}],c=3`: {`p=[{ type = "a,b", value = 1 }, {}]`, "c=3"},
		`name='x,y',metrics[0].value="1,2"`:       {"name='x,y'", `metrics[0].value="1,2"`},
	} {
		if got := splitSettings(text); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
