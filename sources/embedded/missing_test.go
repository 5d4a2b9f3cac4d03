package embedded

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// TestMissing checks that an empty result has a warning if an endpoint from which the query could select
// series has not been scraped, and only then.
func TestMissing(t *testing.T) {
	good, bad := newExporter(t, "load 1\n"), newExporter(t, "")
	bad.set(http.StatusForbidden, textFormat, "not for you")
	cfg := &Config{Scrape: []Scrape{
		{Job: "good", Addresses: []string{good.address()}, Interval: minInterval, Labels: map[string]string{"zone": "a"}},
		{Job: "bad", Addresses: []string{bad.address()}, Interval: minInterval, Labels: map[string]string{"zone": "b"}},
	}}
	cfg.SetDefaults()
	source := started(t, cfg, sources.Env{})
	warnings := func(query string) []string {
		t.Helper()
		vector, err := source.Query(t.Context(), sources.Query{Text: query}, time.Now())
		if err != nil || len(vector.Series) > 0 {
			t.Fatalf("%s = %v, %v, want no series", query, vector.Series, err)
		}
		return vector.Warnings
	}
	failure := fmt.Sprintf(`job "bad": scrape http://%s/metrics: endpoint returned 403 Forbidden: "not for you"`, bad.address())
	eventually(t, source, "sum(up)", "{} 1")
	poll(t, func() bool { return slices.Equal(warnings("other"), []string{failure}) }, func() string { return fmt.Sprint(warnings("other")) })
	for query, want := range map[string]bool{
		`other`: true, `sum(other{job="bad"})`: true, `other{job=~"b.*",zone!="a"}`: true, `other{queue="x"}`: true, `load > 5 or other{zone="b"}`: true,
		`other{job="good"}`: false, `other{job!="bad"}`: false, `other{zone="a"} * 2`: false, fmt.Sprintf(`other{instance=%q}`, good.address()): false,
	} {
		if got := len(warnings(query)) > 0; got != want {
			t.Errorf("warnings for %s = %q", query, warnings(query))
		}
	}

	slow := &Config{Scrape: []Scrape{
		{Addresses: []string{good.address()}, Interval: 24 * time.Hour, Timeout: time.Second},
		{FileSD: []string{"/nonexistent/*.yml"}, Interval: minInterval},
	}}
	slow.SetDefaults()
	source = started(t, slow, sources.Env{})
	if got := warnings("load"); len(got) != 1 || !strings.HasSuffix(got[0], "/metrics: not finished yet") {
		t.Errorf("warnings before the first scrape = %q", got)
	}
	poll(t, func() bool { return len(source.Problems()) > 0 }, func() string { return "no problem with the files" })
	if got, want := warnings(`load{job="file_sd"}`), `job "file_sd": file_sd "/nonexistent/*.yml" matches no file`; !slices.Equal(got, []string{want}) {
		t.Errorf("warnings without endpoints = %q, want %q", got, want)
	}
}
