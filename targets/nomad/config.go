package nomad

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// The defaults of settings that are neither in the configuration nor in the environment.
const (
	defaultAddress   = "http://127.0.0.1:4646"
	defaultNamespace = "default"
)

// The definitions of used memory: the values of Config.Memory.
const (
	// memoryUsageCache subtracts Cache from Usage; the result is at least RSS.
	memoryUsageCache = "usage-cache"
	// memoryUsage uses Usage, which includes the page cache.
	memoryUsage = "usage"
	// memoryRSS uses RSS.
	memoryRSS = "rss"
)

// The definitions of a ready allocation: the values of Config.Readiness.
const (
	// readinessHealth uses the allocation's health in its deployment.
	readinessHealth = "health"
	// readinessChecks requires that health and the success of all Nomad service checks.
	readinessChecks = "checks"
)

// Config is one [fleets.NAME] table of kind "nomad". The defaults come from the environment
// variables of the Nomad command line.
type Config struct {
	// Address is the URL of the HTTP API: http, https or unix, without credentials; empty means
	// NOMAD_ADDR.
	Address string `toml:"address"`
	// Region is the default region of targets; empty means NOMAD_REGION, or the region of the
	// agent at Address.
	Region string `toml:"region"`
	// Namespace is the default namespace of targets; empty means NOMAD_NAMESPACE.
	Namespace string `toml:"namespace"`
	// TokenFile is the path of a file that contains an ACL token. It is read in each round. Empty
	// means NOMAD_TOKEN.
	TokenFile string `toml:"token_file"`
	// BasicAuth contains the credentials for a proxy in front of Nomad; nil means NOMAD_HTTP_AUTH.
	BasicAuth *httpclient.BasicAuth `toml:"basic_auth"`
	// TLS applies to an https address. Its files are read again after a change. The defaults come
	// from NOMAD_CACERT, NOMAD_CAPATH, NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY, NOMAD_TLS_SERVER_NAME
	// and NOMAD_SKIP_VERIFY.
	TLS httpclient.TLS `toml:"tls"`
	// Stale allows reads from any server instead of the leader.
	Stale bool `toml:"stale"`
	// Timeout limits one call, including the response.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, such as \"10s\""`
	// MaxConnections limits the open connections: 1 to 100, Nomad's default limit for one client.
	MaxConnections int `toml:"max_connections" default:"50" min:"1" max:"100" must:"from 1 to 100, Nomad's default limit for one client"`
	// ResourceInterval is the interval between samples of cpu and memory: at least 1s.
	ResourceInterval time.Duration `toml:"resource_interval" default:"15s" min:"1s"`
	// Memory is the definition of used memory: "usage-cache", "usage" or "rss".
	Memory string `toml:"nomad_memory" default:"usage-cache" values:"usage-cache usage rss" must:"one of \"usage-cache\", \"usage\", \"rss\""`
	// Readiness is the definition of a ready allocation: "health" or "checks".
	Readiness string `toml:"readiness" default:"health" values:"health checks" must:"one of \"health\", \"checks\""`
	// Dispatch contains the settings for the children of parameterized jobs, by the ID of the job or,
	// in other namespaces than the fleet's, by "namespace/id".
	Dispatch map[string]Dispatch `toml:"dispatch"`
	// Discovery finds autoscalers in the meta of task groups.
	targets.Discovery
	// DiscoverNamespaces lists the namespaces in which targets are discovered. "*" stands for all
	// namespaces that the token may read; empty means the fleet's namespace.
	DiscoverNamespaces []string `toml:"discover_namespaces"`
	// NomadAutoscalerPolicies also creates autoscalers for task groups with an enabled scaling policy of
	// nomad-autoscaler, unless their meta has hpad.enable. It requires discover.
	NomadAutoscalerPolicies bool `toml:"nomad_autoscaler_policies" requires:"discover"`
}

// SetDefaults sets missing values from the environment or to their defaults.
func (c *Config) SetDefaults() {
	c.Address = cmp.Or(c.Address, os.Getenv("NOMAD_ADDR"), defaultAddress)
	c.Region = cmp.Or(c.Region, os.Getenv("NOMAD_REGION"))
	c.Namespace = cmp.Or(c.Namespace, os.Getenv("NOMAD_NAMESPACE"), defaultNamespace)
	settings.SetDefaults(c)
	if len(c.DiscoverNamespaces) == 0 {
		c.DiscoverNamespaces = []string{c.Namespace}
	}
}

// CallTimeout returns the timeout of a call.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// ConcurrentWrites returns the number of counts that are written at the same time: all connections
// that fetching leaves, except one.
func (c *Config) ConcurrentWrites() int { return max(1, c.MaxConnections-c.fetching()-1) }

// Validate returns all errors in the configuration, with paths relative to the fleet's table.
// SetDefaults must be called first.
func (c *Config) Validate() []settings.FieldError {
	var errs settings.FieldErrors
	if detail := checkAddress(c.Address); detail != "" {
		errs.Add("address", httpclient.QuoteAddress(c.Address), detail)
	}
	if c.Namespace == "*" {
		errs.Add("namespace", strconv.Quote(c.Namespace), "must be a single namespace: set other namespaces in the targets")
	}
	errs = append(errs, c.TLS.Validate()...)
	errs = append(errs, settings.Validate(c)...)
	for _, job := range slices.Sorted(maps.Keys(c.Dispatch)) {
		for _, e := range c.Dispatch[job].validate() {
			e.Field = "dispatch." + job + "." + e.Field
			errs = append(errs, e)
		}
	}
	for i, namespace := range c.DiscoverNamespaces {
		field := "discover_namespaces[" + strconv.Itoa(i) + "]"
		switch {
		case namespace == "":
			errs.Add(field, strconv.Quote(namespace), "must be the name of a namespace")
		case namespace == everyNamespace && len(c.DiscoverNamespaces) > 1:
			errs.Add(field, strconv.Quote(namespace), "must be the only entry: it selects all namespaces that the token may read")
		case slices.Contains(c.DiscoverNamespaces[:i], namespace):
			errs.Add(field, strconv.Quote(namespace), "must not be listed twice")
		}
	}
	return errs
}

const portEnds = "must end with the port, because the API does not support a path prefix"

var agent = httpclient.Address{
	Form:        `must be the address of a Nomad agent, such as "https://127.0.0.1:4646" or "unix:///run/nomad/api.sock"`,
	Credentials: "token_file or basic_auth", End: portEnds,
}

func checkAddress(text string) string {
	if detail := settings.Unexpanded(text); detail != "" {
		return detail
	}
	address, err := url.Parse(text)
	if err == nil && address.User == nil && address.Scheme == "unix" && address.Host == "" && address.Path != "" {
		return ""
	}
	detail := agent.Check(text)
	if detail == "" && strings.Trim(address.Path, "/") != "" {
		return portEnds
	}
	return detail
}

// DefaultTarget sets the namespace and region of a target that has none.
func (c *Config) DefaultTarget(target targets.Target) {
	if t, ok := target.(*Target); ok {
		t.Namespace = cmp.Or(t.Namespace, c.Namespace)
		t.Region = cmp.Or(t.Region, c.Region)
	}
}

// Engine returns a value that is equal for any two fleets of the same cluster.
func (c *Config) Engine() string {
	if path, ok := strings.CutPrefix(c.Address, "unix://"); ok {
		return targets.SocketPath(path)
	}
	return targets.ServiceAddress(c.Address)
}

// Kind is the fleet kind "nomad".
var Kind = targets.Kind{
	Name:   "nomad",
	Config: func() targets.Config { return new(Config) },
	Target: func() targets.Target { return new(Target) },
	Reference: targets.Reference{
		Paths:   []string{"{job}/{group}", "{namespace}/{job}/{group}", "{region}/{namespace}/{job}/{group}"},
		Escaped: true, Example: "checkout/api", Workload: "{name}/{name}",
		Around: []string{"region", "namespace"},
	},
	Samples:       true,
	Failing:       []policy.ConditionType{AllocationsFailing},
	Restart:       `"nomad job restart -group GROUP JOB"`,
	InstanceLabel: "alloc_id",
	LabelPlace:    "the meta of the task group, in the job's file",
	Limits: map[string]string{
		"memory": "set memory, or a memory_max above 0, in the resources of every task",
	},
	Without: map[string]string{
		"down, unready instances": "Nomad's scheduler chooses",
		"partial write":           "Nomad accepts or rejects a count as a whole",
	},
}

// Build builds a fleet.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env)
}

// Target is an autoscaler's target in a Nomad fleet.
type Target struct {
	// Job is an ID, and Group is the name of one of the job's task groups.
	Job   string `toml:"job" required:"the id of a job"`
	Group string `toml:"group" required:"the name of one of the job's task groups"`
	// Namespace is the job's namespace; empty means the fleet's namespace.
	Namespace string `toml:"namespace"`
	// Region is the job's region; empty means the fleet's region.
	Region string `toml:"region"`
}

// Validate returns all errors in the target table.
func (t *Target) Validate() []settings.FieldError {
	errs := settings.Validate(t)
	if t.Namespace == "*" {
		errs = append(errs, settings.FieldError{Field: "namespace", Value: strconv.Quote(t.Namespace), Detail: "must be a single namespace"})
	}
	return errs
}

// Name returns the target's name in a targets.Ref: "job/group" in the namespace "default",
// "namespace/job/group" in another namespace, "region/namespace/job/group" with a region. Inside
// a part, a slash is "%2F" and a percent sign "%25".
func (t *Target) Name() string {
	namespace := cmp.Or(t.Namespace, defaultNamespace)
	switch {
	case t.Region != "":
		return joinParts(t.Region, namespace, t.Job, t.Group)
	case namespace != defaultNamespace:
		return joinParts(namespace, t.Job, t.Group)
	}
	return joinParts(t.Job, t.Group)
}

func parseName(name string) (Target, error) {
	parts := strings.Split(name, "/")
	for i := range parts {
		if strings.Contains(parts[i], "%") {
			parts[i] = unescape.Replace(parts[i]) // Replace copies the string
		}
		if parts[i] == "" {
			return Target{}, fmt.Errorf("target %q contains an empty part", name)
		}
	}
	switch len(parts) {
	case 2:
		return Target{Job: parts[0], Group: parts[1], Namespace: defaultNamespace}, nil
	case 3:
		return Target{Namespace: parts[0], Job: parts[1], Group: parts[2]}, nil
	case 4:
		return Target{Region: parts[0], Namespace: parts[1], Job: parts[2], Group: parts[3]}, nil
	}
	return Target{}, fmt.Errorf("target %q must have the form job/group, namespace/job/group or region/namespace/job/group", name)
}

var (
	escape   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescape = strings.NewReplacer("%25", "%", "%2F", "/")
)

func joinParts(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escape.Replace(part)
	}
	return strings.Join(escaped, "/")
}

// scope is a region and a namespace, the unit of list calls.
type scope struct{ region, namespace string }

func (s scope) String() string {
	if s.region == "" {
		return fmt.Sprintf("namespace %q", s.namespace)
	}
	return fmt.Sprintf("namespace %q of region %q", s.namespace, s.region)
}

func (t Target) scope() scope { return scope{region: t.Region, namespace: t.Namespace} }

type jobKey struct {
	scope
	id string
}

func (t Target) jobKey() jobKey { return jobKey{scope: t.scope(), id: t.Job} }

func (t Target) groupKey() groupKey { return groupKey{job: t.Job, group: t.Group} }
