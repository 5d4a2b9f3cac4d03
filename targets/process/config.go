package process

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/rollout"
)

// Config is one [fleets.NAME] table of kind "process".
type Config struct {
	// ResourceInterval is the interval for sampling CPU and memory: at least 100ms.
	ResourceInterval time.Duration `toml:"resource_interval" default:"15s" min:"100ms"`
	// Services maps names to targets.
	Services map[string]Service `toml:"services"`
}

// Local returns true, because hpad itself starts the processes.
func (c *Config) Local() bool { return true }

// Service is one [fleets.NAME.services.SERVICE] table.
type Service struct {
	// Command contains the program and its first arguments. A program without a slash is looked
	// up in hpad's PATH.
	Command []string `toml:"command" required:"the program and its arguments, such as [\"/usr/bin/worker\", \"-v\"]"`
	// Args contains further arguments.
	Args []string `toml:"args"`
	// Env contains variables that are added to hpad's own environment.
	Env map[string]string `toml:"env"`
	// Dir is the working directory. If it is empty, hpad's own working directory is used.
	Dir string `toml:"dir"`
	// Ports is a range such as "9100-9199", from which each instance gets one port. It limits
	// the count. If it is empty, instances have no ports and the count is not limited.
	Ports string `toml:"ports"`
	// Replicas is the count at the first start. Later starts use the stored count; nil means 1.
	Replicas *int32 `toml:"replicas" default:"1" min:"0"`
	// Readiness tests whether an instance is ready. Without a probe, an instance is ready while
	// its process is running.
	Readiness Readiness `toml:"readiness"`
	// DrainDelay is the time between the decision to remove an instance and SIGTERM, during which
	// proxies stop routing to it.
	DrainDelay time.Duration `toml:"drain_delay" min:"0s"`
	// StopWithHpad stops the processes when hpad stops. If it is false, they continue to run until
	// the next start of hpad, which takes them over. hpad always stops them if it is not a systemd
	// service of Type=notify, or is a member of a cluster.
	StopWithHpad bool `toml:"stop_with_hpad"`
	// StopGracePeriod is the time between SIGTERM and SIGKILL. 0 means 10s.
	StopGracePeriod time.Duration `toml:"stop_grace_period" default:"10s" min:"1ms"`
	// RestartBackoffMin is the wait before the first restart after a crash; 0 means 1s. The
	// wait doubles with each further crash, up to RestartBackoffMax; 0 means 1m, or
	// RestartBackoffMin if that is longer. The wait is reset after a process has run for
	// RestartBackoffMax.
	RestartBackoffMin time.Duration `toml:"restart_backoff_min" default:"1s" min:"1ms"`
	RestartBackoffMax time.Duration `toml:"restart_backoff_max"`
	// MaxSurge is the maximum number of instances above the count while hpad replaces the instances
	// of a changed service; nil means 1.
	MaxSurge *int32 `toml:"max_surge" default:"1" min:"0"`
	// MaxUnavailable is the number of ready instances that may be missing from the count during a
	// replacement.
	MaxUnavailable int32 `toml:"max_unavailable" min:"0"`
	// ProgressDeadline is the time after which a replacement in which no instance becomes ready is
	// reported; 0 means 10m. The old instances stay.
	ProgressDeadline time.Duration `toml:"progress_deadline" default:"10m" min:"1s"`
	// Requests contains the resource requests of each instance: cpu in cores, memory in bytes.
	Requests map[string]quantity.Quantity `toml:"requests"`
}

// Readiness configures a probe of the instance's port on 127.0.0.1.
type Readiness struct {
	// TCP makes the probe connect to the port.
	TCP bool `toml:"tcp" excludes:"http"`
	// HTTP makes the probe send a GET request for this path. A status from 200 to 399 means
	// ready. If it is empty, there is no HTTP probe.
	HTTP string `toml:"http"`
	// Interval is the time between probes of a ready instance; 0 means 1s. The first probes of
	// an instance are more frequent.
	Interval time.Duration `toml:"interval" default:"1s" min:"10ms"`
	probe.Limits
}

func (r Readiness) probes() bool { return r.TCP || r.HTTP != "" }

const defaultRestartBackoffMax = time.Minute

// SetDefaults sets missing values.
func (c *Config) SetDefaults() {
	settings.SetDefaults(c)
	for name, s := range c.Services {
		settings.SetDefaults(&s)
		s.RestartBackoffMax = cmp.Or(s.RestartBackoffMax, max(defaultRestartBackoffMax, s.RestartBackoffMin))
		c.Services[name] = s
	}
}

// serviceName matches valid service names. A name becomes part of IDs, environment variables
// and log fields.
var serviceName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the fleet's table.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(c))
	taken := map[string]portRange{}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		s := c.Services[name]
		path := "services." + name
		if !serviceName.MatchString(name) {
			errs.Add(path, strconv.Quote(name), "a service's name must consist of 1 to 63 letters, digits, dots, dashes and underscores, and begin and end with a letter or digit")
		}
		for _, e := range s.validate() {
			e.Field = path + "." + e.Field
			errs = append(errs, e)
		}
		ports, err := parsePorts(s.Ports)
		if err != nil || ports.count() == 0 {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(taken)) {
			if ports.overlaps(taken[other]) {
				errs.Add(path+".ports", strconv.Quote(s.Ports), fmt.Sprintf("overlaps with %q of service %q; each service needs its own ports", taken[other], other))
			}
		}
		taken[name] = ports
	}
	return errs
}

func (s Service) validate() []settings.FieldError {
	var errs settings.FieldErrors
	s.validateCommand(&errs)
	ports, err := parsePorts(s.Ports)
	if err != nil {
		errs.Add("ports", strconv.Quote(s.Ports), err.Error())
	}
	errs = append(errs, settings.Validate(&s)...)
	if highest := ports.count(); highest > 0 && s.Replicas != nil && *s.Replicas > highest {
		errs.Add("replicas", strconv.Itoa(int(*s.Replicas)), fmt.Sprintf("must be at most %d, the number of ports", highest))
	}
	if s.MaxSurge != nil && *s.MaxSurge+s.MaxUnavailable == 0 {
		errs.Add("max_surge", "0", "max_surge or max_unavailable must be at least 1")
	}
	if s.RestartBackoffMax < s.RestartBackoffMin {
		errs.Add("restart_backoff_max", strconv.Quote(s.RestartBackoffMax.String()), fmt.Sprintf("must be at least restart_backoff_min, which is %v", s.RestartBackoffMin))
	}
	if _, err := url.ParseRequestURI(s.Readiness.HTTP); s.Readiness.HTTP != "" && (err != nil || !strings.HasPrefix(s.Readiness.HTTP, "/")) {
		errs.Add("readiness.http", strconv.Quote(s.Readiness.HTTP), `must be a path that begins with "/", such as "/ready"`)
	}
	if s.Readiness.probes() && s.Ports == "" {
		errs.Add("readiness", "", "needs ports: the probe connects to the instance's own port")
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Requests)) {
		if amount := s.Requests[resource]; amount.Milli() < 0 {
			errs.Add("requests."+resource, strconv.Quote(amount.String()), "must be at least 0")
		}
	}
	return errs
}

func (s Service) validateCommand(errs *settings.FieldErrors) {
	for _, argument := range slices.Concat(s.Command, s.Args) {
		if strings.ContainsRune(argument, 0) {
			errs.Add("command", strconv.Quote(argument), "must not contain a NUL character")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		switch {
		case key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(s.Env[key], 0):
			errs.Add("env."+key, "", "a variable's name must not be empty or contain an equals sign, and neither name nor value may contain a NUL character")
		case strings.HasPrefix(key, "HPAD_"):
			errs.Add("env."+key, "", "names that begin with HPAD_ are reserved for hpad")
		}
	}
}

// CheckTarget returns an error message if no service has the name, otherwise "".
func (c *Config) CheckTarget(name string) string {
	if _, ok := c.Services[name]; ok {
		return ""
	}
	if len(c.Services) == 0 {
		return fmt.Sprintf("no service %q is configured; the fleet contains no services", name)
	}
	return fmt.Sprintf("no service %q is configured; the fleet contains %q", name, slices.Sorted(maps.Keys(c.Services)))
}

// MostReplicas returns the number of a service's ports, and a description of this limit.
func (c *Config) MostReplicas(target string) (most int32, of string) {
	ports, _ := parsePorts(c.Services[target].Ports) // the configuration is valid
	return ports.count(), fmt.Sprintf("the number of ports of service %q", target)
}

// Surge returns the number of additional ports that a replacement of a service needs.
func (c *Config) Surge(target string) int32 {
	s := c.Services[target]
	if s.MaxUnavailable > 0 || s.MaxSurge == nil {
		return 0
	}
	return *s.MaxSurge
}

// Requests reports whether a service requests a resource, and returns the name of its table.
func (c *Config) Requests(target, resource string) (stated bool, at string) {
	_, stated = c.Services[target].Requests[resource]
	return stated, "services." + target
}

// Kind is the fleet kind "process".
var Kind = targets.Kind{
	Name:      "process",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{service}"}, Whole: true, Example: "worker", Workload: "{name}"},
	Samples:   true,
	Failing:   []policy.ConditionType{ProcessesFailing, rollout.ReplacementFailing},
	Hosted:    true,
	Without: map[string]string{
		"read, after an external change":           "only hpad starts and stops its processes",
		"an external write between read and write": "only hpad starts and stops its processes",
		"the lease of a shared fleet ends":         "its fleets are not shared",
		"held":                                     "a replacement of processes does not reject writes",
		"throttled":                                "the kernel does not count calls",
		"partial write":                            "the fleet accepts or rejects a count as a whole, and retries processes that do not start",
		"platform unreachable":                     "the platform is the host that hpad runs on",
		"no response":                              "system calls always return",
	},
}

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Target identifies a service of a process fleet.
type Target struct {
	// Service is a key in the services table of the fleet.
	Service string `toml:"service" required:"the name of one of the fleet's services"`
}

// Validate returns all errors of the target.
func (t *Target) Validate() []settings.FieldError { return settings.Validate(t) }

// Name returns the target's name in a targets.Ref, which is the service's name.
func (t *Target) Name() string { return t.Service }

// portRange is a range of ports that includes both ends. The zero value is empty.
type portRange struct{ first, last int }

// parsePorts parses "9100-9199" or "9100". The empty text is the empty range.
func parsePorts(text string) (portRange, error) {
	if text == "" {
		return portRange{}, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err1 := strconv.ParseUint(strings.TrimSpace(from), 10, 16)
	last, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 16)
	if err1 != nil || err2 != nil || first == 0 || last < first {
		return portRange{}, fmt.Errorf(`must be a range of ports from 1 to 65535, such as "9100-9199"`)
	}
	return portRange{int(first), int(last)}, nil
}

func (p portRange) count() int32 {
	if p.first == 0 {
		return 0
	}
	return int32(p.last - p.first + 1)
}

func (p portRange) overlaps(other portRange) bool {
	return p.first <= other.last && other.first <= p.last
}

// String returns the range in the form used in the configuration.
func (p portRange) String() string { return strconv.Itoa(p.first) + "-" + strconv.Itoa(p.last) }
