// Package awsasg is the fleet of EC2 Auto Scaling groups of one AWS account and
// region.
//
// A round describes a hundred groups a call, and looks up each instance once, when
// it first is in service, for its start time and addresses. What the platform
// forbids or reserves for itself becomes the reading's bounds, hold or notice.
//
// Auto Scaling compares no versions: a write reads its group just before, and is
// an ErrConflict where the desired capacity is another one than that of the reading.
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
)

// burstSeconds is how many seconds' worth of calls are made at once after a pause.
const burstSeconds = 4

// What a group's own scaling policies mean: the values of Config.NativeAutoscaler.
const (
	// NativeHold holds a group that has any.
	NativeHold = "hold"
	// NativeIgnore scales it nevertheless.
	NativeIgnore = "ignore"
)

// Config is one [fleets.NAME] table of kind "awsasg". What is left out comes from
// where the AWS command line has it: environment, shared files, the instance's
// role.
type Config struct {
	// Region is the groups', as "eu-central-1"; empty means AWS_REGION, the
	// profile's, or that of the instance hpad runs on.
	Region string `toml:"region"`
	// Profile is one of the shared configuration; empty means AWS_PROFILE.
	Profile string `toml:"profile"`
	// CredentialsFile is a shared credentials file, read again when AWS refuses its
	// credentials; empty means AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials.
	CredentialsFile string `toml:"credentials_file"`
	// RoleARN is a role to assume with these credentials; empty means none.
	RoleARN string `toml:"role_arn"`
	// ExternalID is what the role's trust policy asks for; empty means nothing.
	ExternalID string `toml:"external_id"`
	// Endpoints are where the services are.
	Endpoints Endpoints `toml:"endpoints"`
	// Timeout bounds one call, from sending it to the end of the answer.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, as \"10s\""`
	// ReadsPerSecond and WritesPerSecond bound the calls of Auto Scaling in the long
	// run, and each of them, apart, those of EC2: more than 0 and at most 1000. Four
	// times as many are made at once after a pause.
	ReadsPerSecond  float64 `toml:"reads_per_second" default:"10" above:"0" max:"1000" must:"more than 0 and at most 1000"`
	WritesPerSecond float64 `toml:"writes_per_second" default:"5" above:"0" max:"1000" must:"more than 0 and at most 1000"`
	// DescribeInstances asks EC2 once for each instance when it started, its
	// addresses and its tags; nil means that it does.
	DescribeInstances *bool `toml:"describe_instances" default:"true"`
	// HoldDuringRefresh leaves a group alone while its instances are refreshed.
	HoldDuringRefresh bool `toml:"hold_during_refresh"`
	// NativeAutoscaler is what a group's own scaling policies mean: one of the Native
	// constants.
	NativeAutoscaler string `toml:"native_autoscaler" default:"hold" values:"hold ignore" must:"one of \"hold\", \"ignore\""`
	// CheckInterval is how often scaling policies are read: at least 1s.
	CheckInterval time.Duration `toml:"check_interval" default:"1m" min:"1s"`
}

// Endpoints are the addresses of services. An empty one means that of AWS, or what
// AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_AUTO_SCALING, _EC2 and _STS say.
type Endpoints struct {
	AutoScaling string `toml:"auto_scaling"`
	EC2         string `toml:"ec2"`
	STS         string `toml:"sts"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// CallTimeout returns how long a call may take.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns every mistake of a defaulted configuration, with paths below the
// fleet's table.
func (c *Config) Validate() []settings.FieldError {
	var mistakes settings.Mistakes
	if strings.ContainsAny(c.Region, " \t/.:") {
		mistakes.Add("region", strconv.Quote(c.Region), `must be a region's name, as "eu-central-1"`)
	}
	if c.RoleARN != "" && !strings.HasPrefix(c.RoleARN, "arn:") {
		mistakes.Add("role_arn", strconv.Quote(c.RoleARN), `must be the ARN of a role, as "arn:aws:iam::123456789012:role/hpad"`)
	}
	if c.ExternalID != "" && c.RoleARN == "" {
		mistakes.Add("external_id", "", "must be left out where no role_arn is set")
	}
	for _, endpoint := range []struct{ field, value string }{
		{"endpoints.auto_scaling", c.Endpoints.AutoScaling},
		{"endpoints.ec2", c.Endpoints.EC2},
		{"endpoints.sts", c.Endpoints.STS},
	} {
		if detail := endpointAddress.Check(endpoint.value); endpoint.value != "" && detail != "" {
			mistakes.Add(endpoint.field, "", detail)
		}
	}
	return append(mistakes, settings.Validate(c)...)
}

// endpointForm is what an endpoint has to be.
const endpointForm = `must be the address of a service, as "https://autoscaling.eu-central-1.amazonaws.com"`

var endpointAddress = httpclient.Address{Form: endpointForm, End: endpointForm}

// Target is the part of an autoscaler's target table that a fleet of Auto Scaling
// groups reads.
type Target struct {
	// Group is the name of an Auto Scaling group.
	Group string `toml:"group"`
}

// longestName is how long AWS lets a group's name be.
const longestName = 255

// Validate returns every mistake of the target.
func (t *Target) Validate() []settings.FieldError {
	switch {
	case t.Group == "":
		return []settings.FieldError{{Field: "group", Detail: "is required: the name of an Auto Scaling group"}}
	case !validName(t.Group):
		return []settings.FieldError{{
			Field: "group", Value: strconv.Quote(t.Group),
			Detail: fmt.Sprintf("must be the name of an Auto Scaling group: at most %d printable ASCII characters without colon", longestName),
		}}
	}
	return nil
}

// Name returns the target's name in a targets.Ref: the group's.
func (t *Target) Name() string { return t.Group }

// validName reports whether AWS takes a name: another one fails the whole call in which
// groups are described.
func validName(name string) bool {
	return name != "" && len(name) <= longestName && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r > '~' || r == ':'
	})
}

// parseName returns the group that a target's name means.
func parseName(name string) (string, error) {
	if !validName(name) {
		return "", cloud.Reasoned(GroupNotFound, fmt.Errorf("%w: AWS takes no group of the name %q", targets.ErrTargetNotFound, name))
	}
	return name, nil
}

// Engine returns what two fleets have in common that are sure to be of one account
// and region: a role names its account, any other credentials are only known by
// where they come from.
func (c *Config) Engine() string {
	region := cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	endpoint := cmp.Or(c.Endpoints.AutoScaling, os.Getenv("AWS_ENDPOINT_URL_AUTO_SCALING"), os.Getenv("AWS_ENDPOINT_URL"))
	profile := cmp.Or(c.Profile, os.Getenv("AWS_PROFILE"))
	account := fmt.Sprintf("%q %q", profile, cmp.Or(c.CredentialsFile, os.Getenv("AWS_SHARED_CREDENTIALS_FILE")))
	if parts := strings.Split(c.RoleARN, ":"); len(parts) > 4 {
		account = parts[4]
	}
	if region == "" { // the profile's
		region = fmt.Sprintf("of %q", profile)
	}
	return strings.Join([]string{targets.ServiceAddress(endpoint), region, account}, " ")
}

// Kind is the kind of fleets of Auto Scaling groups.
var Kind = targets.Kind{
	Name:      "awsasg",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{group}"}, Whole: true, Example: "web-asg", Workload: "{name}"},
	Removes:   true,
	Guarded:   true,
	Unique:    true,
	Without: map[string]string{
		"down, unready instances": "AWS chooses, unless hpad takes instances by name",
		"partly done":             "AWS takes a count or refuses it",
		"resource use":            "what machines use comes from node_exporter by way of Prometheus",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: what machines request is for the target of an autoscaler to say.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }
