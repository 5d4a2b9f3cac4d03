package prometheus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings/httpclient"
)

// TestURLWithPath checks that the error for the URL of a web page or API endpoint contains the
// correct URL.
func TestURLWithPath(t *testing.T) {
	const detail = "must be the server's URL, without the path of a web page or API endpoint: "
	for given, want := range map[string]string{
		"http://p:9090/api/v1/query":                       "http://p:9090",
		"http://p:9090/api/v1/query/":                      "http://p:9090",
		"http://p:9090/api/v1/query_range":                 "http://p:9090",
		"http://p:9090/api/v1/label/job/values":            "http://p:9090",
		"http://p:9090/api/v1/status/buildinfo":            "http://p:9090",
		"http://p:9090/api/v1":                             "http://p:9090",
		"http://p:9090/api/v1//":                           "http://p:9090",
		"http://p:9090/graph":                              "http://p:9090",
		"http://p:9090/graph?g0.expr=up&g0.tab=1":          "http://p:9090",
		"http://p:9090/classic/graph#x":                    "http://p:9090",
		"http://p:9090/query":                              "http://p:9090",
		"http://p:9090//alerts/":                           "http://p:9090",
		"https://[::1]:9090/-/healthy":                     "https://[::1]:9090",
		"https://m.example/prefix/graph":                   "https://m.example/prefix",
		"https://m.example/prometheus/api/v1/query":        "https://m.example/prometheus",
		"https://m.example/a/b/api/v1/":                    "https://m.example/a/b",
		"https://m.example/api/v1/x/api/v1/query":          "https://m.example/api/v1/x",
		"https://vm.example/select/0/prometheus/vmui/":     "https://vm.example/select/0/prometheus",
		"https://aps.example/workspaces/ws-1/api/v1/query": "https://aps.example/workspaces/ws-1",

		"http://p:9090/":                     "",
		"http://p:9090/graphs":               "",
		"http://p:9090/my-graph":             "",
		"https://m.example/api/v1/prom":      "",
		"https://m.example/query/prometheus": "",
		"https://k.example/api/v1/namespaces/monitoring/services/prometheus:9090/proxy": "",
	} {
		cfg := Config{URL: given}
		cfg.SetDefaults()
		var got string
		for _, invalid := range cfg.Validate() {
			got = invalid.Detail
		}
		if want != "" {
			want = fmt.Sprintf("%s%q", detail, want)
		}
		if got != want {
			t.Errorf("url %q:\n got %s\nwant %s", given, got, want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	const (
		form        = `must be the URL of a Prometheus server, such as "http://127.0.0.1:9090"`
		credentials = "must not contain credentials: use basic_auth, token_file or oauth2"
		path        = `must end with the path: no "?" and no "#"`
	)
	for _, test := range []struct {
		name string
		edit func(*Config)
		want []string
	}{
		{"valid", func(*Config) {}, nil},
		{"https with a path", func(c *Config) { c.URL = "https://prometheus.example.org/prefix/" }, nil},
		{"IPv6", func(c *Config) { c.URL = "http://[::1]:9090" }, nil},
		{"all optional settings", func(c *Config) {
			c.MaxAge = time.Minute
			c.TokenFile = "token"
			c.Headers = map[string]string{"X-Scope-OrgID": "a b"}
			c.TLS = httpclient.TLS{CertFile: "cert", KeyFile: "key"}
		}, nil},
		{"no url", func(c *Config) { c.URL = "" }, []string{"url: " + form}},
		{"no scheme", func(c *Config) { c.URL = "localhost:9090" }, []string{`url = "localhost:9090": ` + form}},
		{"other scheme", func(c *Config) { c.URL = "ftp://localhost" }, []string{`url = "ftp://localhost": ` + form}},
		{"no host", func(c *Config) { c.URL = "http://" }, []string{`url = "http://": ` + form}},
		{"not a url", func(c *Config) { c.URL = "http://[::1" }, []string{`url = "http://[::1": ` + form}},
		{"credentials in url", func(c *Config) { c.URL = "http://me:secret@localhost" }, []string{"url: " + credentials}},
		{"credentials without scheme", func(c *Config) { c.URL = "me:secret@localhost" }, []string{"url: " + form}},
		{"query in url", func(c *Config) { c.URL = "http://localhost/?token=secret" }, []string{"url: " + path}},
		{"fragment in url", func(c *Config) { c.URL = "http://localhost/#graph" }, []string{`url = "http://localhost/#graph": ` + path}},
		{"zero timeout", func(c *Config) { c.Timeout = 0 }, []string{`timeout = "0s": must be more than 0, such as "10s"`}},
		{"negative timeout", func(c *Config) { c.Timeout = -time.Second }, []string{`timeout = "-1s": must be more than 0, such as "10s"`}},
		{"fraction of a second", func(c *Config) { c.MaxAge = 1500 * time.Millisecond }, []string{
			`max_age = "1.5s": must be whole seconds, such as "90s", or 0 for the server's own default`,
		}},
		{"negative age", func(c *Config) { c.MaxAge = -time.Second }, []string{
			`max_age = "-1s": must be whole seconds, such as "90s", or 0 for the server's own default`,
		}},
		{"no concurrency", func(c *Config) { c.MaxConcurrent = -1 }, []string{"max_concurrent = -1: must be at least 1"}},
		{"two authentication methods", func(c *Config) { c.BasicAuth = &httpclient.BasicAuth{Username: "me"}; c.TokenFile = "token" }, []string{
			"token_file: cannot be combined with basic_auth; keep one of them",
		}},
		{"no username", func(c *Config) { c.BasicAuth = &httpclient.BasicAuth{PasswordFile: "password"} }, []string{"basic_auth.username: is required: the name of the user"}},
		{
			"headers",
			func(c *Config) {
				c.Headers = map[string]string{"authorization": "Bearer secret", "Host": "x", "X Y": "x", "": "x", "X-Lines": "a\nb", "X-Good": "x"}
			},
			[]string{
				"headers.: is not a valid header name: use letters, digits and hyphens",
				"headers.Host: must not be set: it is reserved for the connection",
				"headers.X Y: is not a valid header name: use letters, digits and hyphens",
				"headers.X-Lines: must not contain control characters such as line ends",
				"headers.authorization: must not be set here: use basic_auth, token_file or oauth2",
			},
		},
		{"certificate without key", func(c *Config) { c.TLS.CertFile = "cert" }, []string{"tls.key_file: is required with cert_file"}},
		{"key without certificate", func(c *Config) { c.TLS.KeyFile = "key" }, []string{"tls.cert_file: is required with key_file"}},
		{"methods", func(c *Config) { c.Method = "PUT" }, []string{`method = "PUT": must be "GET" or "POST"`}},
		{
			"params",
			func(c *Config) {
				c.Params = map[string]string{"query": "up", "time": "0", "lookback_delta": "1m", "api_key": "hunter2", "": "x", "partial_response": "false"}
			},
			[]string{
				"params.: is not a name of a parameter",
				"params.api_key: must not contain a secret, because parameters appear in logs: use headers, or a key that names a file",
				"params.query: must not be set: hpad sets it",
				"params.time: must not be set: hpad sets it",
				"params.lookback_delta: must not be set here: use max_age",
			},
		},
		{"several errors", func(c *Config) { c.URL, c.Timeout, c.TLS.KeyFile = "", 0, "key" }, []string{
			"url: " + form, `timeout = "0s": must be more than 0, such as "10s"`, "tls.cert_file: is required with key_file",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := Config{URL: "http://127.0.0.1:9090"}
			cfg.SetDefaults()
			test.edit(&cfg)
			var got []string
			for _, fieldErr := range cfg.Validate() {
				got = append(got, fieldErr.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Validate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	server := serve(t, recorded(t, "200-sum"))
	got, err := newSource(t, server.URL, nil).Check(t.Context())
	if want := []string{fmt.Sprintf("server at %q responds to queries", server.URL)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Check = %q, %v, want %q", got, err, want)
	}
}
