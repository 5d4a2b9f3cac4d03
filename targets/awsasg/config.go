// Package awsasg is the fleet kind for EC2 Auto Scaling groups of one AWS account and region.
//
// In each round, hpad describes 100 groups per call. It queries the start time and addresses of
// each instance once, when the instance is first in service. Restrictions that AWS imposes become
// the reading's bounds, hold or notices.
//
// Auto Scaling has no compare-and-set. A write therefore reads its group first, and returns an
// ErrConflict if the desired capacity has changed since the reading.
package awsasg

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/awslogin"
)

const burstSeconds = 4

// The effects of a group's own scaling policies: the values of Config.NativeAutoscaler.
const (
	// nativeHold holds a group that has scaling policies.
	nativeHold = "hold"
	// nativeIgnore ignores scaling policies.
	nativeIgnore = "ignore"
)

// Config is one [fleets.NAME] table of kind "awsasg".
type Config struct {
	awslogin.Login
	// Endpoints contains the addresses of the services.
	Endpoints Endpoints `toml:"endpoints"`
	// Timeout limits one call, including the response.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, such as \"10s\""`
	// ReadsPerSecond and WritesPerSecond limit the fleet's calls to Auto Scaling and, separately,
	// to EC2. Both are more than 0 and at most 1000. The burst is four seconds of calls.
	ReadsPerSecond  float64 `toml:"reads_per_second" default:"10" above:"0" max:"1000" must:"more than 0 and at most 1000"`
	WritesPerSecond float64 `toml:"writes_per_second" default:"5" above:"0" max:"1000" must:"more than 0 and at most 1000"`
	// DescribeInstances enables one EC2 query for each instance's start time, addresses and tags;
	// nil means true.
	DescribeInstances *bool `toml:"describe_instances" default:"true"`
	// HoldDuringRefresh holds a group during an instance refresh.
	HoldDuringRefresh bool `toml:"hold_during_refresh"`
	// NativeAutoscaler is the effect of a group's own scaling policies: "hold" or "ignore".
	NativeAutoscaler string `toml:"native_autoscaler" default:"hold" values:"hold ignore" must:"one of \"hold\", \"ignore\""`
	// CheckInterval is the interval at which scaling policies are read: at least 1s.
	CheckInterval time.Duration `toml:"check_interval" default:"1m" min:"1s"`
}

// Endpoints contains the addresses of services.
type Endpoints struct {
	// AutoScaling is the address of Auto Scaling; empty means AWS_ENDPOINT_URL_AUTO_SCALING,
	// AWS_ENDPOINT_URL, or the address of AWS.
	AutoScaling string `toml:"auto_scaling"`
	// EC2 is the address of EC2; empty means AWS_ENDPOINT_URL_EC2, AWS_ENDPOINT_URL, or the
	// address of AWS.
	EC2 string `toml:"ec2"`
	// STS is the address of STS; empty means AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL, or the
	// address of AWS.
	STS string `toml:"sts"`
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// CallTimeout returns the timeout of a call.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns all errors in the configuration, with paths relative to the fleet's table.
// SetDefaults must be called first.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.FieldErrors(c.Login.Validate())
	for _, endpoint := range []struct{ field, value string }{
		{"endpoints.auto_scaling", c.Endpoints.AutoScaling},
		{"endpoints.ec2", c.Endpoints.EC2},
		{"endpoints.sts", c.Endpoints.STS},
	} {
		if detail := endpointAddress.Check(endpoint.value); endpoint.value != "" && detail != "" {
			errs.Add(endpoint.field, "", detail)
		}
	}
	return append(errs, settings.Validate(c)...)
}

const endpointForm = `must be the URL of a service, such as "https://autoscaling.eu-central-1.amazonaws.com"`

var endpointAddress = httpclient.Address{Form: endpointForm, End: endpointForm}

// Target contains the keys that identify an Auto Scaling group.
type Target struct {
	// Group is the Auto Scaling group's name.
	Group string `toml:"group" required:"the name of an Auto Scaling group"`
}

const longestName = 255

// Validate returns all errors in the target table.
func (t *Target) Validate() []settings.FieldError {
	if t.Group != "" && !validName(t.Group) {
		return []settings.FieldError{{
			Field: "group", Value: strconv.Quote(t.Group),
			Detail: fmt.Sprintf("must be the name of an Auto Scaling group: at most %d printable ASCII characters without colon", longestName),
		}}
	}
	return settings.Validate(t)
}

// Name returns the group's name.
func (t *Target) Name() string { return t.Group }

// validName reports whether AWS accepts a name. One invalid name makes the whole call that
// describes groups fail.
func validName(name string) bool {
	return name != "" && len(name) <= longestName && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r > '~' || r == ':'
	})
}

func parseName(name string) (string, error) {
	if !validName(name) {
		return "", cloud.WithReason(cloud.GroupNotFound, fmt.Errorf("%w: AWS does not accept the group name %q", targets.ErrTargetNotFound, name))
	}
	return name, nil
}

// Engine returns a value that is equal for any two fleets of the same account and region. A role
// names its account; other credentials are identified by their source.
func (c *Config) Engine() string {
	region := cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	endpoint := cmp.Or(c.Endpoints.AutoScaling, os.Getenv("AWS_ENDPOINT_URL_AUTO_SCALING"), os.Getenv("AWS_ENDPOINT_URL"))
	profile := cmp.Or(c.Profile, os.Getenv("AWS_PROFILE"))
	account := fmt.Sprintf("%q %q", profile, cmp.Or(c.CredentialsFile, os.Getenv("AWS_SHARED_CREDENTIALS_FILE")))
	if parts := strings.Split(c.RoleARN, ":"); len(parts) > 4 {
		account = parts[4]
	}
	if region == "" { // the region of the profile applies
		region = fmt.Sprintf("of %q", profile)
	}
	return strings.Join([]string{targets.ServiceAddress(endpoint), region, account}, " ")
}

// Kind is the fleet kind "awsasg".
var Kind = targets.Kind{
	Name:      "awsasg",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{group}"}, Whole: true, Example: "web-asg", Workload: "{name}"},
	Removes:   true,
	Guarded:   true,
	Restart:   `"aws autoscaling start-instance-refresh --auto-scaling-group-name GROUP"`,
	Without: map[string]string{
		"down, unready instances": "AWS chooses the instances unless hpad removes them by name",
		"partial write":           "AWS accepts or rejects a count as a whole",
		"resource use":            "resource usage of hosts comes from node_exporter through Prometheus",
	},
}

// Build builds a fleet from the table.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: requests are in the target table of an autoscaler.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }
