package compose

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// Config is one [fleets.NAME] table of kind "compose".
type Config struct {
	// Config describes the connection to the engine.
	docker.Config
	// Discovery finds autoscalers in the labels of services.
	targets.Discovery
	// RespectStopped stops hpad from scaling a service while all its containers are stopped,
	// unless hpad stopped them; nil means true.
	RespectStopped *bool `toml:"respect_stopped" default:"true"`
	// RestartFailed restarts failed containers that the engine does not restart; nil means
	// true.
	RestartFailed *bool `toml:"restart_failed" default:"true"`
	// KeepAnonymousVolumes keeps the anonymous volumes of removed containers, as Compose does.
	KeepAnonymousVolumes bool `toml:"keep_anonymous_volumes"`
	// StoreSecrets allows hpad to store secrets that Compose copied into containers; nil means
	// true. If it is false, a service with such secrets is not scaled to 0.
	StoreSecrets *bool `toml:"store_secrets" default:"true"`
	// Services contains settings of services that hpad cannot read from the engine, by
	// "project/service".
	Services map[string]Service `toml:"services"`
}

// Service is one [fleets.NAME.services."PROJECT/SERVICE"] table.
type Service struct {
	// CopyPaths lists the absolute paths of files that Compose copied into the containers:
	// configs with content or environment, and secrets outside of /run/secrets.
	CopyPaths []string `toml:"copy_paths"`
	// PostStart hooks run in each new container after its start, and PreStop hooks before it is
	// stopped. Compose runs its own hooks only in containers that it creates.
	PostStart []Hook `toml:"post_start"`
	PreStop   []Hook `toml:"pre_stop"`
	// DrainDelay is the time between the decision to remove a container and its PreStop hooks and
	// stop, during which proxies stop routing to it.
	DrainDelay time.Duration `toml:"drain_delay" min:"0s"`
	// RespectStopped overrides the fleet's value for this service; nil means the fleet's value.
	RespectStopped *bool `toml:"respect_stopped"`
	// RestartFailed overrides the fleet's value for this service; nil means the fleet's value.
	RestartFailed *bool `toml:"restart_failed"`
}

// SetDefaults sets missing values from environment variables, or to their defaults.
func (c *Config) SetDefaults() {
	c.Config.SetDefaults()
	settings.SetDefaults(c)
}

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the fleet's table.
func (c *Config) Validate() []settings.FieldError {
	errs := append(c.Config.Validate(), settings.Validate(&c.Discovery)...)
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		field := "services." + strconv.Quote(name)
		if _, err := parseName(name); err != nil {
			errs = append(errs, settings.FieldError{Field: field, Value: strconv.Quote(name), Detail: `must be "project/service"`})
		}
		for _, e := range c.Services[name].validate() {
			e.Field = field + "." + e.Field
			errs = append(errs, e)
		}
	}
	return errs
}

func (s Service) validate() []settings.FieldError {
	errs := settings.Validate(&s)
	for i, p := range s.CopyPaths {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			errs = append(errs, settings.FieldError{
				Field: fmt.Sprintf("copy_paths[%d]", i), Value: strconv.Quote(p), Detail: `must be the absolute path of a file, such as "/app.conf"`,
			})
		}
	}
	for i, hook := range s.PostStart {
		errs = append(errs, hook.validate(fmt.Sprintf("post_start[%d]", i))...)
	}
	for i, hook := range s.PreStop {
		errs = append(errs, hook.validate(fmt.Sprintf("pre_stop[%d]", i))...)
	}
	return errs
}

// Kind is the fleet kind "compose".
var Kind = targets.Kind{
	Name:       "compose",
	Config:     func() targets.Config { return new(Config) },
	Target:     func() targets.Target { return new(Target) },
	Reference:  targets.Reference{Paths: []string{"{project}/{service}"}, Example: "shop/web", Workload: "{namespace}/{name}"},
	Samples:    true,
	Failing:    []policy.ConditionType{ContainersFailing},
	Restart:    `"docker compose up --detach --no-deps --force-recreate SERVICE"`,
	LabelPlace: "the labels of the service, in the project's compose.yaml",
	Limits: map[string]string{
		"cpu":    `set cpus of the service (or deploy.resources.limits.cpus) and run "docker compose up -d"`,
		"memory": `set mem_limit of the service (or deploy.resources.limits.memory) and run "docker compose up -d"`,
	},
}

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env)
}

// Target identifies a service of a Compose project.
type Target struct {
	// Project is the name of the Compose project, and Service the name of one of its services.
	Project string `toml:"project" required:"the name of a Compose project, as shown by \"docker compose ls\""`
	Service string `toml:"service" required:"the name of one of the project's services"`
}

// The valid names of projects and services.
var (
	projectName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	serviceName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)

// Validate returns all errors of the target.
func (t *Target) Validate() []settings.FieldError {
	errs := settings.Validate(t)
	if t.Project != "" && !projectName.MatchString(t.Project) {
		errs = append(errs, settings.FieldError{Field: "project", Value: strconv.Quote(t.Project), Detail: "must be a Compose project name: lower-case letters, digits, dashes and underscores"})
	}
	if t.Service != "" && !serviceName.MatchString(t.Service) {
		errs = append(errs, settings.FieldError{Field: "service", Value: strconv.Quote(t.Service), Detail: "must be a Compose service name: letters, digits, dots, dashes and underscores"})
	}
	return errs
}

// Name returns the target's name in a targets.Ref: "project/service".
func (t *Target) Name() string { return key{t.Project, t.Service}.String() }

// key identifies a service on an engine.
type key struct{ project, service string }

func (k key) String() string { return k.project + "/" + k.service }

func parseName(name string) (key, error) {
	project, service, ok := strings.Cut(name, "/")
	if !ok || !projectName.MatchString(project) || !serviceName.MatchString(service) {
		return key{}, fmt.Errorf("target %q does not have the form project/service", name)
	}
	return key{project: project, service: service}, nil
}
