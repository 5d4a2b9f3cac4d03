package template

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestExecuteIsBounded checks that a template cannot use unbounded time or memory.
func TestExecuteIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for text, message := range map[string]string{
		`{{range 1000000000000}}{{end}}`:                                                    "steps",
		`{{range 1000000000}}{{if false}}x{{end}}{{end}}`:                                   "steps",
		`{{range 1000000}}{{range 1000000}}{{end}}{{else}}{{end}}`:                          "steps",
		`{{with 1}}{{if true}}{{range 1000000000}}{{end}}{{end}}{{end}}`:                    "steps",
		`{{range 1000000000}}{{continue}}{{end}}`:                                           "steps",
		`{{range 100000}}0123456789012345678901234567890123456789012345678901234567{{end}}`: "larger",
		`{{$x := "a"}}{{range 60}}{{$x = print $x $x}}{{end}}`:                              "larger",
		`{{$x := "\\"}}{{range 60}}{{$x = js $x}}{{end}}`:                                   "larger",
		`{{$x := "a"}}{{range 60}}{{$x = printf "%s%s" $x $x}}{{end}}`:                      "larger",
		`{{printf "%900000d" 1}}`:                                                           "width",
		`{{printf "%*d" 900000 1}}`:                                                         "width",
		`{{define "a"}}{{if .}}{{template "a" slice . 1}}{{template "a" slice . 1}}{{end}}{{end}}{{template "a" "` + strings.Repeat("x", 60) + `"}}`: "steps",
	} {
		parsed, err := Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := parsed.Execute(nil)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("%.80s: %v, want %q", text, err, message)
			}
		case <-ctx.Done():
			t.Fatalf("%s did not end", text)
		}
	}
	parsed, err := Parse(`{{range .}}{{printf "%-5s|%03d" . 7}}{{else}}none{{end}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := parsed.Execute([]string{"a"}); text != "a    |007" || err != nil {
		t.Errorf("output %q, %v", text, err)
	}
}
