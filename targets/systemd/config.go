package systemd

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/rollout"
)

// Config is one [fleets.NAME] table of kind "systemd".
type Config struct {
	// Manager selects the systemd manager of the units: "system", or "user" for the manager of the
	// user that hpad runs as.
	Manager string `toml:"manager" default:"system" values:"system user"`
	// Address is the manager's address: a path, or a D-Bus address of the form "unix:…". An
	// address that ends in "/systemd/private" is the manager's own socket; any other address is
	// a bus. If it is empty, the default address is used.
	Address string `toml:"address"`
	// Timeout limits one call.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, such as \"10s\""`
	// ResourceInterval is the interval for sampling CPU and memory: at least 1s.
	ResourceInterval time.Duration `toml:"resource_interval" default:"15s" min:"1s"`
	// Templates contains settings of targets that hpad cannot read from the manager, by the
	// names of their unit files, such as "worker@.service".
	Templates map[string]Template `toml:"templates"`
}

// Template is one [fleets.NAME.templates."TEMPLATE"] table. It is optional.
type Template struct {
	// FirstIndex is the lowest index that hpad uses; nil means 1. hpad ignores units with lower
	// indexes.
	FirstIndex *int32 `toml:"first_index" default:"1" min:"0" max:"1000000000"`
	// Replicas is the initial count if no count is stored and no instance is running; nil means
	// 0, which leaves an autoscaler disabled.
	Replicas *int32 `toml:"replicas" min:"0"`
	// Port is where an instance listens, for the embedded source: a number in which "%i" stands for
	// the instance's index. If it is empty, instances have no port.
	Port string `toml:"port"`
	// DrainDelay is the time between the decision to remove an instance and the stop of its unit,
	// during which proxies stop routing to it.
	DrainDelay time.Duration `toml:"drain_delay" min:"0s"`
	// RestartOnChange replaces the instances when their unit file or a drop-in has changed and the
	// manager has loaded the change.
	RestartOnChange bool `toml:"restart_on_change"`
	// ProgressDeadline is the time after which a replacement in which no instance becomes ready is
	// reported; 0 means 10m. The old instances stay.
	ProgressDeadline time.Duration `toml:"progress_deadline" default:"10m" min:"1s"`
	// ReadyProbe tests whether an instance is ready. Without a probe, an active instance is
	// ready.
	ReadyProbe readyProbe `toml:"ready_probe"`
	// Requests contains the resource requests of each instance: cpu in cores, memory in bytes.
	// They override the limits in the unit file.
	Requests map[string]quantity.Quantity `toml:"requests"`
}

// readyProbe tests whether an instance is ready. In its addresses, "%i" stands for the
// instance's index.
type readyProbe struct {
	// HTTP is the URL to request. A status from 200 to 399 means ready.
	HTTP string `toml:"http"`
	// TCP is the host and port to connect to.
	TCP string `toml:"tcp" excludes:"http"`
	// Interval is the time between probes; 0 means 1s.
	Interval time.Duration `toml:"interval" default:"1s" min:"100ms"`
	probe.Limits
}

// The values of Config.Manager.
const (
	systemManager = "system"
	userManager   = "user"
)

// Local returns true, because a manager is always reached through a local socket.
func (c *Config) Local() bool { return true }

// SetDefaults sets missing values.
func (c *Config) SetDefaults() {
	settings.SetDefaults(c)
	for name, t := range c.Templates {
		settings.SetDefaults(&t)
		c.Templates[name] = t
	}
}

// bareKey matches the keys that need no quotes in TOML.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// CallTimeout returns the time limit for one call.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the fleet's table.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(c))
	if c.Address != "" && !filepath.IsAbs(c.Address) && !strings.HasPrefix(c.Address, "unix:") {
		errs.Add("address", strconv.Quote(c.Address), `must be the path of a socket on this host or a D-Bus address, such as "/run/user/1000/systemd/private" or "unix:path=/run/user/1000/bus"`)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Templates)) {
		path := "templates." + name
		if !bareKey.MatchString(name) {
			path = "templates." + strconv.Quote(name)
		}
		if _, problem := parseTemplate(name); problem != "" {
			errs.Add(path, strconv.Quote(name), problem)
		}
		for _, e := range c.Templates[name].validate() {
			e.Field = path + "." + e.Field
			errs = append(errs, e)
		}
	}
	return errs
}

func (t Template) validate() []settings.FieldError {
	errs := settings.Validate(&t)
	if t.Port != "" && portAt(t.Port, *t.FirstIndex) == 0 {
		errs = append(errs, settings.FieldError{Field: "port", Value: strconv.Quote(t.Port), Detail: fmt.Sprintf(`must be a port from 1 to 65535 at index %d, with "%%i" for the index, such as "%%i" or "91%%i"`, *t.FirstIndex)})
	}
	for _, resource := range slices.Sorted(maps.Keys(t.Requests)) {
		if amount := t.Requests[resource]; amount.Milli() < 0 {
			errs = append(errs, settings.FieldError{Field: "requests." + resource, Value: strconv.Quote(amount.String()), Detail: "must be at least 0"})
		}
	}
	for _, e := range t.ReadyProbe.validate() {
		e.Field = "ready_probe." + e.Field
		errs = append(errs, e)
	}
	return errs
}

func (p readyProbe) probes() bool { return p.HTTP != "" || p.TCP != "" }

// validate returns the errors that the struct tags do not cover.
func (p readyProbe) validate() []settings.FieldError {
	var errs settings.FieldErrors
	if p.HTTP != "" {
		const form = `must be a URL with "%i" for the instance's index, such as "http://127.0.0.1:%i/ready"`
		if detail := checkIndexed(p.HTTP, form, httpclient.Address{Form: form}.Check); detail != "" {
			errs.Add("http", strconv.Quote(p.HTTP), detail)
		}
	}
	if p.TCP != "" {
		const form = `must be a host and port with "%i" for the instance's index, such as "127.0.0.1:%i"`
		if detail := checkIndexed(p.TCP, form, func(text string) string { return settings.CheckHostPort(text, form) }); detail != "" {
			errs.Add("tcp", strconv.Quote(p.TCP), detail)
		}
	}
	return errs
}

// checkIndexed returns the error of a check of an address at index 1.
func checkIndexed(text, form string, check func(text string) string) string {
	detail := check(atIndex(text, 1))
	if detail == "" && !strings.Contains(text, indexPlaceholder) {
		return form
	}
	return detail
}

// indexPlaceholder stands for an instance's index, as it does in unit files.
const indexPlaceholder = "%i"

func atIndex(text string, index int32) string {
	return strings.ReplaceAll(text, indexPlaceholder, strconv.Itoa(int(index)))
}

// portAt returns the port of one instance, or 0 if it has no port.
func portAt(text string, index int32) int {
	port, err := strconv.ParseUint(atIndex(text, index), 10, 16)
	if err != nil || !strings.Contains(text, indexPlaceholder) {
		return 0
	}
	return int(port)
}

// template returns the table of a template, or the defaults.
func (c *Config) template(t template) Template {
	own := c.Templates[t.file()]
	settings.SetDefaults(&own)
	return own
}

// Kind is the fleet kind "systemd".
var Kind = targets.Kind{
	Name:      "systemd",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{template}"}, Whole: true, Example: "worker@.service", Workload: "{name}@.service", Suffix: "@.service"},
	Samples:   true,
	Limits:    map[string]string{"cpu": "set CPUQuota= in the unit file", "memory": "set MemoryMax= in the unit file"},
	Failing:   []policy.ConditionType{UnitsFailing, UnitsMissing, rollout.ReplacementFailing},
	Without: map[string]string{
		"the lease of a shared fleet ends": "its fleets are not shared",
		"held":                             "the manager starts and stops instances at any time",
		"out of range":                     "a template may have any number of instances",
	},
}

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Target identifies a template of a systemd fleet.
type Target struct {
	// Template is the name of the unit file, such as "worker@.service".
	Template string `toml:"template" required:"the name of a template's unit file, such as \"worker@.service\""`
}

// Validate returns all errors of the target.
func (t *Target) Validate() []settings.FieldError {
	if _, problem := parseTemplate(t.Template); problem != "" && t.Template != "" {
		return []settings.FieldError{{Field: "template", Value: strconv.Quote(t.Template), Detail: problem}}
	}
	return settings.Validate(t)
}

// Name returns the target's name in a targets.Ref, which is the template's name.
func (t *Target) Name() string { return t.Template }

// Engine returns a key that is equal for two fleets on the same manager, unless they configure
// different sockets of it.
func (c *Config) Engine() string {
	if c.Address == "" {
		return c.Manager
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(addressOf(c), "unix:path="), ",")
	return targets.SocketPath(path)
}
