package gcemig

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/cloud/googlelogin"
)

func TestConfigDefaults(t *testing.T) {
	for _, name := range []string{"GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "GOOGLE_CLOUD_UNIVERSE_DOMAIN", "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"} {
		t.Setenv(name, "")
	}
	c := Config{Project: "shop-prod"}
	c.SetDefaults()
	want := Config{
		Project: "shop-prod", Login: googlelogin.Login{UniverseDomain: "googleapis.com"}, Endpoint: "https://compute.googleapis.com/compute/v1/",
		Timeout: 10 * time.Second, ReadsPerSecond: 20, WritesPerSecond: 10, MaxConnections: 20,
	}
	if c != want {
		t.Errorf("SetDefaults() = %+v, want %+v", c, want)
	}
	if errs := c.Validate(); errs != nil {
		t.Errorf("Validate() of the defaults = %v", errs)
	}
	t.Setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.goog")
	t.Setenv("CLOUDSDK_CORE_PROJECT", "from-gcloud")
	c = Config{}
	if c.SetDefaults(); c.Endpoint != "https://compute.example.goog/compute/v1/" || c.Project != "from-gcloud" {
		t.Errorf("endpoint = %q and project = %q, want the values of the environment", c.Endpoint, c.Project)
	}
	t.Setenv("GOOGLE_CLOUD_PROJECT", "from-cloud")
	t.Setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "http://127.0.0.1:8080/compute/v1/")
	c = Config{}
	if c.SetDefaults(); c.Endpoint != "http://127.0.0.1:8080/compute/v1/" || c.Project != "from-cloud" {
		t.Errorf("endpoint = %q and project = %q, want the values of the environment", c.Endpoint, c.Project)
	}
}

func TestConfigMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"no project":         {func(c *Config) { c.Project = "" }, `project: is required`},
		"bad project":        {func(c *Config) { c.Project = "Shop Prod" }, `project = "Shop Prod": must be a project ID`},
		"bad quota project":  {func(c *Config) { c.QuotaProject = "projects/x" }, `quota_project = "projects/x": must be a project ID`},
		"bad zone":           {func(c *Config) { c.Zone = "us/a" }, `zone = "us/a": must be a name`},
		"bad region":         {func(c *Config) { c.Region = "US" }, `region = "US": must be a name`},
		"both":               {func(c *Config) { c.Zone, c.Region = "us-east1-b", "us-east1" }, `region: cannot be combined with zone`},
		"bad account":        {func(c *Config) { c.Impersonate = "hpad" }, `impersonate_service_account = "hpad": must be the email address`},
		"bad domain":         {func(c *Config) { c.UniverseDomain = "https://x" }, `universe_domain = "https://x": must be a domain`},
		"bad endpoint":       {func(c *Config) { c.Endpoint = "compute.example.com" }, `endpoint = "compute.example.com": must be the URL`},
		"query in endpoint":  {func(c *Config) { c.Endpoint = "https://x/?key=secret" }, `endpoint: must be the URL`},
		"secret in endpoint": {func(c *Config) { c.Endpoint = "https://me:secret@x/" }, `endpoint: must not contain credentials`},
		"no timeout":         {func(c *Config) { c.Timeout = -1 }, `timeout = "-1ns": must be more than 0`},
		"no reads":           {func(c *Config) { c.ReadsPerSecond = -1 }, `reads_per_second = -1: must be more than 0`},
		"too many writes":    {func(c *Config) { c.WritesPerSecond = 1e6 }, `writes_per_second = 1e+06: must be more than 0, and at most 10000`},
		"no connections":     {func(c *Config) { c.MaxConnections = 2000 }, `max_connections = 2000: must be from 1 to 1000`},
	} {
		t.Run(name, func(t *testing.T) {
			config := &Config{Project: "shop-prod", Login: googlelogin.Login{UniverseDomain: googlelogin.DefaultUniverse}, Endpoint: "https://compute.googleapis.com/compute/v1/"}
			config.SetDefaults()
			c.change(config)
			errs := config.Validate()
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(), "secret") {
				t.Errorf("Validate() = %v, want %s", errs, c.want)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	config := &Config{Region: "us-east1"}
	for _, c := range []struct {
		target Target
		name   string
		errs   []string
	}{
		{Target{Group: "web", Zone: "us-east1-b"}, "zones/us-east1-b/web", nil},
		{Target{Group: "web", Region: "europe-west4"}, "regions/europe-west4/web", nil},
		{Target{Group: "web"}, "regions/us-east1/web", nil},
		{Target{Zone: "us-east1-b"}, "", []string{"group"}},
		{Target{Group: "Web/1", Zone: "us east"}, "", []string{"group", "zone"}},
		{Target{Group: "web", Zone: "us-east1-b", Region: "us-east1"}, "", []string{"region"}},
	} {
		target := c.target
		config.DefaultTarget(&target)
		var fields []string
		for _, fieldErr := range target.Validate() {
			fields = append(fields, fieldErr.Field)
		}
		if !slices.Equal(fields, c.errs) {
			t.Errorf("%+v: invalid fields = %q, want %q", c.target, fields, c.errs)
		}
		if c.errs != nil {
			continue
		}
		if got := target.Name(); got != c.name {
			t.Errorf("%+v: name = %q, want %q", c.target, got, c.name)
		}
		if back, err := parseName(c.name); err != nil || back != target {
			t.Errorf("parseName(%q) = %+v, %v, want %+v", c.name, back, err, target)
		}
	}
	if detail := config.CheckTarget("zones/us-east1-b/web"); detail != "" {
		t.Errorf("CheckTarget() of a target with a location = %q, want no error", detail)
	}
	if detail := config.CheckTarget((&Target{Group: "web"}).Name()); !strings.Contains(detail, "zone") {
		t.Errorf("CheckTarget() of a target without a location = %q, want an error", detail)
	}
	for _, name := range []string{"", "web", "zones/web", "zones//web", "planets/mars/web", "zones/a/b/c"} {
		if target, err := parseName(name); err == nil {
			t.Errorf("parseName(%q) = %+v, want an error", name, target)
		}
	}
}
