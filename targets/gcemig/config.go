// Package gcemig is the fleet kind for the zonal and regional managed instance groups of a Google
// Cloud project. Each target is a group, and its instances are the group's virtual machines.
//
// In each round, hpad reads the project's groups with one aggregated list call per 500 groups. It
// lists a group's instances if the aggregated list shows a change; it lists the instances of
// stable groups less often. It queries start times, addresses and labels once for each machine.
//
// Compute Engine has no compare-and-set for sizes. The version of a reading is the group's id and
// size, and a write first reads them again. Instances are never Protected.
package gcemig

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
)

// burstSeconds is the burst of calls, expressed in seconds of the permitted rate.
const burstSeconds = 10

// Config is one [fleets.NAME] table of kind "gcemig".
type Config struct {
	// Project is the id of the project; empty means GOOGLE_CLOUD_PROJECT, or
	// CLOUDSDK_CORE_PROJECT.
	Project string `toml:"project" required:"the ID of the groups' project, here or in GOOGLE_CLOUD_PROJECT"`
	// Zone or Region is the default for targets that have neither.
	Zone   string `toml:"zone"`
	Region string `toml:"region" excludes:"zone"`
	// Endpoint is the address of the API, without the final "projects"; empty means
	// CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE, or the address in UniverseDomain.
	Endpoint string `toml:"endpoint"`
	googlelogin.Login
	// QuotaProject is the project for quotas; empty means the default of the credentials.
	QuotaProject string `toml:"quota_project"`
	// Timeout limits one call, including the response.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, such as \"10s\""`
	// ReadsPerSecond and WritesPerSecond limit the fleet's calls: more than 0, at most 10000. The
	// burst is 10 seconds of calls.
	ReadsPerSecond  float64 `toml:"reads_per_second" default:"20" above:"0" max:"10000" must:"more than 0, and at most 10000"`
	WritesPerSecond float64 `toml:"writes_per_second" default:"10" above:"0" max:"10000" must:"more than 0, and at most 10000"`
	// MaxConnections limits the concurrent calls: 1 to 1000.
	MaxConnections int `toml:"max_connections" default:"20" min:"1" max:"1000"`
	// HoldDuringRollout holds a group during a proactive update of its instances.
	HoldDuringRollout bool `toml:"hold_during_rollout"`
}

// SetDefaults sets missing values from the environment or to their defaults.
func (c *Config) SetDefaults() {
	c.Project = cmp.Or(c.Project, os.Getenv("GOOGLE_CLOUD_PROJECT"), os.Getenv("CLOUDSDK_CORE_PROJECT"))
	c.Login.SetDefaults()
	c.Endpoint = cmp.Or(c.Endpoint, os.Getenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"), "https://compute."+c.UniverseDomain+"/compute/v1/")
	settings.SetDefaults(c)
}

// The name formats of Compute Engine; a project may have a domain prefix.
var (
	resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	projectID    = regexp.MustCompile(`^([a-z][-.a-z0-9]*:)?[a-z][-a-z0-9]{0,61}[a-z0-9]$`)
)

const nameForm = `must be a name of lower-case letters, digits and hyphens, at most 63`

// CallTimeout returns the timeout of a call.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns all errors in the configuration, with paths relative to the fleet's table.
// SetDefaults must be called first.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(c))
	for _, name := range []struct {
		field, value string
		form         *regexp.Regexp
		detail       string
	}{
		{"project", c.Project, projectID, `must be a project ID, such as "my-project-123"`},
		{"quota_project", c.QuotaProject, projectID, `must be a project ID, such as "my-project-123"`},
		{"zone", c.Zone, resourceName, nameForm},
		{"region", c.Region, resourceName, nameForm},
	} {
		if name.value != "" && !name.form.MatchString(name.value) {
			errs.Add(name.field, strconv.Quote(name.value), name.detail)
		}
	}
	if detail := endpointAddress.Check(c.Endpoint); detail != "" {
		errs.Add("endpoint", httpclient.QuoteAddress(c.Endpoint), detail)
	}
	return append(errs, c.Login.Validate()...)
}

const endpointForm = `must be the URL of the Compute Engine API, such as "https://compute.googleapis.com/compute/v1/"`

var endpointAddress = httpclient.Address{Form: endpointForm, Credentials: "credentials_file", End: endpointForm}

// DefaultTarget sets the zone or region of a target that has neither.
func (c *Config) DefaultTarget(target targets.Target) {
	if t, ok := target.(*Target); ok && t.Zone == "" && t.Region == "" {
		t.Zone, t.Region = c.Zone, c.Region
	}
}

// CheckTarget describes the problem with a target's name after DefaultTarget; "" if it is valid.
func (c *Config) CheckTarget(name string) string {
	if _, err := parseName(name); err != nil {
		return "requires a zone, or a region for a regional group, here or in the fleet"
	}
	return ""
}

func (c *Config) limits() cloud.Limits {
	return cloud.Limits{Calls: map[cloud.Class]cloud.Limit{
		cloud.Read:  cloud.Saved(c.ReadsPerSecond, burstSeconds),
		cloud.Write: cloud.Saved(c.WritesPerSecond, burstSeconds),
	}}
}

// Engine returns a value that is equal for any two fleets of the same project.
func (c *Config) Engine() string { return targets.ServiceAddress(c.Endpoint) + " " + c.Project }

// Kind is the fleet kind "gcemig".
var Kind = targets.Kind{
	Name:   "gcemig",
	Config: func() targets.Config { return new(Config) },
	Target: func() targets.Target { return new(Target) },
	Reference: targets.Reference{
		Paths:   []string{"zones/{zone}/{group}", "regions/{region}/{group}", "{group}"},
		Example: "zones/europe-west4-a/web", Workload: "{name}", Around: []string{"zone", "region"},
	},
	Removes: true,
	Guarded: true,
	Restart: `"gcloud compute instance-groups managed rolling-action replace GROUP"`,
	Without: map[string]string{
		"down, unready instances": "Compute Engine chooses the instances unless hpad removes them by name",
		"partial write":           "Compute Engine accepts or rejects a size as a whole",
		"resource use":            "resource usage of hosts comes from node_exporter through Prometheus",
	},
}

// Build builds a fleet from the table.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: requests are in the target table of an autoscaler.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }

// Target contains the keys that identify a managed instance group.
type Target struct {
	// Group is the managed instance group's name.
	Group string `toml:"group" required:"the name of a managed instance group"`
	// Zone is set for a zonal group, Region for a regional group. If both are empty, the fleet's
	// default applies.
	Zone   string `toml:"zone"`
	Region string `toml:"region" excludes:"zone"`
}

// Validate returns all errors in the target table, except those that Config.CheckTarget finds.
func (t *Target) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(t))
	name := func(field, value string) {
		if value != "" && !resourceName.MatchString(value) {
			errs.Add(field, strconv.Quote(value), nameForm)
		}
	}
	name("group", t.Group)
	name("zone", t.Zone)
	name("region", t.Region)
	return errs
}

// Name returns the target's name in a targets.Ref: "zones/ZONE/GROUP" or
// "regions/REGION/GROUP".
func (t *Target) Name() string { return t.scope() + "/" + t.Group }

const (
	zones   = "zones"
	regions = "regions"
)

// scope returns the key of the group's location in aggregated lists.
func (t *Target) scope() string {
	if t.Region != "" {
		return regions + "/" + t.Region
	}
	return zones + "/" + t.Zone
}

func parseName(name string) (Target, error) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return Target{}, fmt.Errorf("target %q does not have the form zones/ZONE/GROUP or regions/REGION/GROUP", name)
	}
	switch parts[0] {
	case zones:
		return Target{Zone: parts[1], Group: parts[2]}, nil
	case regions:
		return Target{Region: parts[1], Group: parts[2]}, nil
	}
	return Target{}, fmt.Errorf("target %q does not have the form zones/ZONE/GROUP or regions/REGION/GROUP", name)
}

func (t Target) String() string { return t.Name() }
