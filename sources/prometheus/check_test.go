package prometheus

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	build := func(version string) http.HandlerFunc {
		return answering(200, "application/json", fmt.Sprintf(`{"status":"success","data":{"version":%q,"revision":"x"}}`, version))
	}
	const advice = `: it needs Prometheus 2.43 or newer; upgrade the server or start it with --query.lookback-delta=1m30s`
	for _, test := range []struct {
		name      string
		buildinfo http.HandlerFunc
		maxAge    time.Duration
		want      []string
	}{
		{"new", build("2.43.0"), 90 * time.Second, []string{`server at URL answers queries; its version is 2.43.0`}},
		{"newer", build("3.1.0"), 90 * time.Second, []string{`server at URL answers queries; its version is 3.1.0`}},
		{"old", build("2.42.0+ds"), 90 * time.Second, []string{
			`server at URL answers queries; its version is 2.42.0+ds`,
			`max_age = "1m30s" has no effect` + advice,
		}},
		{"older", build("1.99.0"), 90 * time.Second, []string{
			`server at URL answers queries; its version is 1.99.0`,
			`max_age = "1m30s" has no effect` + advice,
		}},
		{"old but nothing asked of it", build("2.42.0"), 0, []string{`server at URL answers queries; its version is 2.42.0`}},
		{"odd version", build("main"), 90 * time.Second, []string{
			`server at URL answers queries; its version is main`,
			`max_age = "1m30s" may have no effect` + advice,
		}},
		{"empty version", build(""), 90 * time.Second, []string{
			`server at URL answers queries; its version is not known to itself`,
			`max_age = "1m30s" may have no effect` + advice,
		}},
		{"no version", http.NotFound, 90 * time.Second, []string{
			`server at URL answers queries but does not tell its version: server returned 404 Not Found for GET "ADDRESS/api/v1/status/buildinfo": "404 page not found"`,
			`max_age = "1m30s" may have no effect` + advice,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/api/v1/query", recorded(t, "200-sum"))
			mux.HandleFunc("/api/v1/status/buildinfo", test.buildinfo)
			server := serve(t, mux.ServeHTTP)
			source := newSource(t, server.URL, func(c *Config) { c.MaxAge = test.maxAge })
			got, err := source.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], fmt.Sprintf("%q", server.URL), "URL")
				got[i] = strings.ReplaceAll(got[i], server.URL, "ADDRESS")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckOfAges holds that a max_age of a query is judged as the source's.
func TestCheckOfAges(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/query", recorded(t, "200-sum"))
	mux.HandleFunc("/api/v1/status/buildinfo", answering(200, "application/json", `{"status":"success","data":{"version":"2.42.0"}}`))
	source := newSource(t, serve(t, mux.ServeHTTP).URL, func(c *Config) { c.MaxAge = time.Minute })
	for range 2 {
		source.Ages(20 * time.Second)
	}
	source.Ages(time.Minute)
	got, err := source.Check(t.Context())
	if err != nil || len(got) != 3 || !strings.HasPrefix(got[1], `max_age = "20s" has no effect`) || !strings.HasPrefix(got[2], `max_age = "1m0s" has no effect`) {
		t.Errorf("Check = %q, %v", got, err)
	}
}
