package prometheus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hpad/hpad/sources"
)

// replay is a transport with one response to every request.
type replay struct {
	status int
	body   []byte
}

func (r replay) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return &http.Response{
		StatusCode: r.status,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(r.body)),
		Request:    request,
	}, nil
}

// No response makes a source panic, return an empty error or a long one, be of another
// status than 200, or have a series of another time or two with the same labels.
func FuzzAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded answers: %v, %v", files, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, status := range []int{200, 206, 302, 400, 503} {
			f.Add(status, body)
		}
	}
	f.Add(200, []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"3"}]}]}}`))
	f.Add(200, []byte(`{"status":"success","data":{"resultType":"scalar","result":null}}`))
	f.Add(403, []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		source := newSource(t, "http://127.0.0.1:9090", nil)
		source.http = &http.Client{Transport: replay{status, body}}
		vector, err := source.query(t.Context(), sources.Query{Text: "up", Labels: []string{"job"}}, at)
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 6*maxShownAnswer || !utf8.ValidString(text) || strings.Contains(text, "\n") {
				t.Errorf("error %q is empty, long, of several lines or not text", text)
			}
			return
		}
		if status != http.StatusOK {
			t.Errorf("an answer of status %d was believed", status)
		}
		seen := map[string]bool{}
		for i, series := range vector.Series {
			if !series.At.Equal(at) {
				t.Errorf("%q has a series of another time: %v", body, series)
			}
			if text := series.Labels.String(); i < 100 && seen[text] {
				t.Errorf("%q has two series %s", body, text)
			} else {
				seen[text] = true
			}
		}
	})
}

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, ""},
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{" a\n\tb  c ", 5, "a b c"},
		{"éééééé", 5, "éééé…"},
		{"a\xffb", 5, "a?b"},
		{"\x1b[31mred", 9, "?[31mred"},
	} {
		if got := shorten(test.text, test.most); got != test.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

func TestWithoutCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:9090/prefix":        "http://127.0.0.1:9090/prefix",
		"https://me:secret@host/p?token=x#y":  "https://host/p",
		"http://me:secret@host:port":          "(unreadable URL)",
		"/login":                              "/login",
		"http://me:secret@[::1]:9090/%zz?a=b": "(unreadable URL)",
	} {
		if got := withoutCredentials(text); got != want {
			t.Errorf("withoutCredentials(%q) = %q, want %q", text, got, want)
		}
	}
}

// What is not an error of HTTP is returned as it is.
func TestExplainTransport(t *testing.T) {
	plain := errors.New("plain")
	if got := explainTransport(fmt.Errorf("wrapped: %w", plain)); !errors.Is(got, plain) || got.Error() != "wrapped: plain" {
		t.Errorf("explainTransport answered %v, want the error itself", got)
	}
}
