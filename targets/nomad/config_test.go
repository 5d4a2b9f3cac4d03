package nomad

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("NOMAD_ADDR", "https://nomad.example:4646")
	t.Setenv("NOMAD_REGION", "eu")
	t.Setenv("NOMAD_NAMESPACE", "team")
	t.Setenv("NOMAD_TOKEN", "secret")
	c := &Config{}
	c.SetDefaults()
	if c.Region != "eu" {
		t.Errorf("region %q, want that of the environment", c.Region)
	}
	c = &Config{Region: "us"}
	c.SetDefaults()
	want := &Config{
		Address: "https://nomad.example:4646", Region: "us", Namespace: "team", Timeout: 10 * time.Second, MaxConnections: 50,
		ResourceInterval: 15 * time.Second, Memory: MemoryUsageCache, Readiness: ReadinessHealth,
		DiscoverNamespaces: []string{"team"},
	}
	want.LabelLimits.SetDefaults()
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("SetDefaults() (-want +got):\n%s", diff)
	}
	connection, err := newConnection(c)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := connection.currentToken(); token != "secret" || err != nil {
		t.Errorf("token %q, %v, want that of the environment", token, err)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"no scheme":            {func(c *Config) { c.Address = "127.0.0.1:4646" }, "address"},
		"path":                 {func(c *Config) { c.Address = "http://127.0.0.1/nomad" }, "address"},
		"credentials":          {func(c *Config) { c.Address = "http://me:secret@127.0.0.1:4646" }, "address"},
		"all namespaces":       {func(c *Config) { c.Namespace = "*" }, "namespace"},
		"nameless credentials": {func(c *Config) { c.BasicAuth = &httpclient.BasicAuth{} }, "basic_auth.username"},
		"no key":               {func(c *Config) { c.TLS.CertFile = "c.pem" }, "tls.key_file"},
		"no certificate":       {func(c *Config) { c.TLS.KeyFile = "k.pem" }, "tls.cert_file"},
		"no time":              {func(c *Config) { c.Timeout = -1 }, "timeout"},
		"many connections":     {func(c *Config) { c.MaxConnections = 101 }, "max_connections"},
		"short interval":       {func(c *Config) { c.ResourceInterval = time.Millisecond }, "resource_interval"},
		"memory":               {func(c *Config) { c.Memory = "all" }, "nomad_memory"},
		"readiness":            {func(c *Config) { c.Readiness = "yes" }, "readiness"},
		"nameless namespace":   {func(c *Config) { c.DiscoverNamespaces = []string{"a", ""} }, "discover_namespaces[1]"},
		"all and one":          {func(c *Config) { c.DiscoverNamespaces = []string{"*", "a"} }, "discover_namespaces[0]"},
		"twice":                {func(c *Config) { c.DiscoverNamespaces = []string{"a", "a"} }, "discover_namespaces[1]"},
	} {
		config := testConfig(t, "http://127.0.0.1:4646")
		c.change(config)
		mistakes := config.Validate()
		if len(mistakes) != 1 || mistakes[0].Field != c.want {
			t.Errorf("%s: Validate() = %v, want one mistake of %s", name, mistakes, c.want)
		}
		for _, mistake := range mistakes {
			if strings.Contains(mistake.Error(), "secret") {
				t.Errorf("%s: %v tells a secret", name, mistake)
			}
		}
	}
}

func TestUnusableFiles(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"/no/ca.pem":   func(c *Config) { c.TLS.CAFile = "/no/ca.pem" },
		"/no/cert.pem": func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "/no/cert.pem", "/no/key.pem" },
		"/no/password": func(c *Config) { c.BasicAuth = &httpclient.BasicAuth{Username: "me", PasswordFile: "/no/password"} },
	} {
		c := testConfig(t, "https://127.0.0.1:4646")
		change(c)
		if _, err := New("prod", c, targets.Env{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New() with a missing %s = %v, want its name", name, err)
		}
	}
}

func TestTargetName(t *testing.T) {
	for want, target := range map[string]Target{
		"web/app":              {Job: "web", Group: "app", Namespace: "default"},
		"team/web/app":         {Job: "web", Group: "app", Namespace: "team"},
		"eu/default/web/app":   {Job: "web", Group: "app", Namespace: "default", Region: "eu"},
		"a%2Fb%252F/app%25":    {Job: "a/b%2F", Group: "app%", Namespace: "default"},
		"team/dispatch%2F1/go": {Job: "dispatch/1", Group: "go", Namespace: "team"},
	} {
		if got := target.Name(); got != want {
			t.Errorf("Name() of %+v = %q, want %q", target, got, want)
		}
		if back, err := parseName(want); err != nil || back != target {
			t.Errorf("parseName(%q) = %+v, %v, want %+v", want, back, err, target)
		}
	}
}
