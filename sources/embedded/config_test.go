package embedded

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/clock"
)

func TestDefaults(t *testing.T) {
	var cfg Config
	if _, err := toml.Decode(`scrape = [
		{ fleet = "local", target = "worker", port_label = "http", interval = "1m" },
		{ addresses = ["127.0.0.1:9100"], path = "/probe?x=1", timeout = "1s" },
		{ file_sd = ["/etc/hpad/targets/*.yml"], scheme = "https", honor_labels = true, token_file = "/run/token" },
		{ http_sd = { url = "http://127.0.0.1/targets?x=1", basic_auth = { username = "hpad" } }, labels = { a = "b" } },
	]`, &cfg); err != nil {
		t.Fatal(err)
	}
	cfg.SetDefaults()
	want := Config{
		Retention: 6 * time.Hour, Timeout: 30 * time.Second, LookbackDelta: 5 * time.Minute, MaxSamples: 5_000_000,
		Scrape: []Scrape{
			{Job: "worker", Fleet: "local", Target: "worker", PortLabel: "http", Scheme: "http", Path: "/metrics", Interval: time.Minute, Timeout: 10 * time.Second},
			{Job: "static", Addresses: []string{"127.0.0.1:9100"}, Scheme: "http", Path: "/probe?x=1", Interval: 5 * time.Second, Timeout: time.Second},
			{
				Job: "file_sd", FileSD: []string{"/etc/hpad/targets/*.yml"}, Scheme: "https", Path: "/metrics", Interval: 5 * time.Second, Timeout: 5 * time.Second,
				HonorLabels: true, Access: httpclient.Access{TokenFile: "/run/token"},
			},
			{
				Job: "http_sd", HTTPSD: &HTTPSD{
					URL: "http://127.0.0.1/targets?x=1", RefreshInterval: time.Minute, Access: httpclient.Access{BasicAuth: &httpclient.BasicAuth{Username: "hpad"}},
				}, Scheme: "http", Path: "/metrics", Interval: 5 * time.Second, Timeout: 5 * time.Second, Labels: map[string]string{"a": "b"},
			},
		},
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("configuration with defaults (-want +got):\n%s", diff)
	}
	if errs := cfg.Validate(); len(errs) > 0 {
		t.Errorf("Validate() = %v, want no errors", errs)
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct{ name, config, want string }{
		{"no endpoints", `scrape = [{}]`, `scrape[0]: must contain addresses, fleet and target, file_sd or http_sd`},
		{"addresses and a fleet", `scrape = [{ addresses = ["a:1"], fleet = "f", target = "t" }]`, `scrape[0].addresses: cannot be combined with fleet; keep one of them`},
		{"no fleet", `scrape = [{ target = "t" }]`, `scrape[0].fleet: is required with target`},
		{"no target", `scrape = [{ fleet = "f" }]`, `scrape[0].target: is required with fleet`},
		{"address without port", `scrape = [{ addresses = ["localhost"] }]`, `scrape[0].addresses[0] = "localhost": must be host:port, such as "127.0.0.1:9100"`},
		{"address with scheme", `scrape = [{ addresses = ["http://a:1"] }]`, `scrape[0].addresses[0] = "http://a:1": must be host:port, such as "127.0.0.1:9100"`},
		{"port label", `scrape = [{ addresses = ["a:1"], port_label = "http" }]`, `scrape[0].fleet: is required with port_label`},
		{"path", `scrape = [{ addresses = ["a:1"], path = "metrics" }]`, `scrape[0].path = "metrics": must be a path such as "/metrics"`},
		{"interval", `scrape = [{ addresses = ["a:1"], interval = "99ms" }]`, `scrape[0].interval = "99ms": must be at least 100ms`},
		{"timeout of a scrape", `scrape = [{ addresses = ["a:1"], interval = "1s", timeout = "2s" }]`, `scrape[0].timeout = 2s: must be more than 0s and at most the interval, 1s`},
		{"sample limit", `scrape = [{ addresses = ["a:1"], sample_limit = -1 }]`, `scrape[0].sample_limit = -1: must be at least 0`},
		{"reserved label", `scrape = [{ addresses = ["a:1"], labels = { instance = "x" } }]`, `scrape[0].labels.instance = "x": is a label that hpad sets; choose another name`},
		{"bad label", `scrape = [{ addresses = ["a:1"], labels = { __name__ = "x" } }]`, `scrape[0].labels.__name__ = "x": the name must be UTF-8, not empty, and must not start with __`},
		{"scheme", `scrape = [{ addresses = ["a:1"], scheme = "ftp" }]`, `scrape[0].scheme = "ftp": must be "http" or "https"`},
		{"labels of a fleet", `scrape = [{ fleet = "f", target = "t", honor_labels = true }]`, `scrape[0].honor_labels: cannot be combined with fleet; keep one of them`},
		{"two kinds of credentials", `scrape = [{ addresses = ["a:1"], token_file = "t", basic_auth = { username = "u" } }]`, `scrape[0].token_file: cannot be combined with basic_auth; keep one of them`},
		{"header", `scrape = [{ addresses = ["a:1"], headers = { Authorization = "x" } }]`, `scrape[0].headers.Authorization: must not be set here: use basic_auth, token_file or oauth2`},
		{"relative file", `scrape = [{ file_sd = ["targets.yml"] }]`, `scrape[0].file_sd[0] = "targets.yml": must be the absolute path of a file or a pattern, such as "/etc/hpad/targets/*.yml"`},
		{"pattern", `scrape = [{ file_sd = ["/etc/[a.yml"] }]`, `scrape[0].file_sd[0] = "/etc/[a.yml": must be the absolute path of a file or a pattern, such as "/etc/hpad/targets/*.yml"`},
		{"file and addresses", `scrape = [{ file_sd = ["/a.yml"], addresses = ["a:1"] }]`, `scrape[0].file_sd: cannot be combined with addresses; keep one of them`},
		{"URL of a list", `scrape = [{ http_sd = { url = "127.0.0.1" } }]`, `scrape[0].http_sd.url = "127.0.0.1": must be the URL of a list, such as "http://127.0.0.1:8080/targets"`},
		{"no URL", `scrape = [{ http_sd = { refresh_interval = "1s" } }]`, `scrape[0].http_sd.url: is required: the URL of a list of endpoints`},
		{"refresh interval", `scrape = [{ http_sd = { url = "http://a", refresh_interval = "1ms" } }]`, `scrape[0].http_sd.refresh_interval = "1ms": must be at least 1s`},
		{"access of a list", `scrape = [{ http_sd = { url = "http://a", tls = { server_name = "a:1" } } }]`, `scrape[0].http_sd.tls.server_name = "a:1": must be a host name without a port`},
		{"same list twice", `scrape = [{ file_sd = ["/a"] }, { file_sd = ["/b", "/a"] }]`, `scrape[1]: has the same job and endpoints as scrape[0]: set a different job for one of them`},
		{"same endpoint twice", `scrape = [{ addresses = ["a:1"] }, { addresses = ["b:1", "a:1"], path = "/x" }]`, `scrape[1]: has the same job and endpoints as scrape[0]: set a different job for one of them`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var cfg Config
			if _, err := toml.Decode(test.config, &cfg); err != nil {
				t.Fatal(err)
			}
			cfg.SetDefaults()
			var got []string
			for _, fieldErr := range cfg.Validate() {
				got = append(got, fieldErr.Error())
			}
			if diff := cmp.Diff([]string{test.want}, got); diff != "" {
				t.Errorf("Validate() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorLog(t *testing.T) {
	background := &errorLog{}
	log := background.logger()
	log.Warn("a warning")
	if got := background.recent(time.Now()); got != "" {
		t.Errorf("recent() after a warning = %q, want \"\"", got)
	}
	log.With("component", "tsdb").Error("compaction failed", "err", fmt.Errorf("no space left on device"))
	if got, want := background.recent(time.Now()), `msg="compaction failed" component=tsdb err="no space left on device"`; got != want {
		t.Errorf("recent() = %q, want %q", got, want)
	}
	if got := background.recent(time.Now().Add(backgroundErrorAge + time.Second)); got != "" {
		t.Errorf("recent() of an old error = %q, want \"\"", got)
	}
}

// TestSteppedClock checks that after a step of the wall clock, samples keep their age, new
// samples are found, and results have the requested instant.
func TestSteppedClock(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			var ahead atomic.Int64
			wall := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			e := newExporter(t, "jobs 1\n")
			source := started(t, config(e.address()), sources.Env{Clock: clock.New(clock.System{Wall: wall})})
			eventually(t, source, "sum(jobs)", "{} 1")
			expect := func(query, want string) {
				t.Helper()
				var got string
				poll(t, func() bool {
					at := wall().Truncate(time.Millisecond)
					vector, err := source.Query(t.Context(), sources.Query{Text: query}, at)
					if err != nil {
						t.Fatal(err)
					}
					for _, series := range vector.Series {
						if !series.At.Equal(at) {
							t.Errorf("%s has time %s, want %s", query, series.At, at)
						}
					}
					got = text(vector)
					return got == want
				}, func() string { return fmt.Sprintf("query %s: got %q, want %q", query, got, want) })
			}
			ahead.Store(int64(by))
			expect("sum(jobs)", "{} 1")
			expect("count(count_over_time(jobs[1m]) > 3)", "{} 1")
			e.set(http.StatusOK, textFormat, "jobs 2\n")
			expect("sum(jobs)", "{} 2")
			expect("max(max_over_time(jobs[1m])) - min(min_over_time(jobs[1m]))", "{} 1")

			// Timestamps in a scrape are wall clock times.
			e.set(http.StatusOK, textFormat, fmt.Sprintf("dated 3 %d\n", wall().UnixMilli()))
			expect("sum(dated)", "{} 3")
		})
	}
}
