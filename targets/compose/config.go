package compose

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// Config is one [fleets.NAME] table of kind "compose".
type Config struct {
	// Config is how the engine is reached.
	docker.Config
	// Discovery is by the labels of services.
	targets.Discovery
	// RestartExited starts containers that have exited again before a scale-up
	// makes new ones.
	RestartExited bool `toml:"restart_exited"`
	// HoldStopped leaves a service alone whose containers somebody has all stopped, until
	// one of them runs again; nil means that it does.
	HoldStopped *bool `toml:"hold_stopped" default:"true"`
	// ReplaceFailed starts containers again that ended with an error by themselves and
	// that the engine does not, or replaces them; nil means that it does.
	ReplaceFailed *bool `toml:"replace_failed" default:"true"`
	// KeepAnonymousVolumes leaves the anonymous volumes of removed containers
	// behind, as Compose does.
	KeepAnonymousVolumes bool `toml:"keep_anonymous_volumes"`
	// StoreSecrets says whether the contents of secrets that Compose copied into
	// containers may be kept in hpad's state; nil means that they may. Without, a
	// service that has any is not scaled to 0.
	StoreSecrets *bool `toml:"store_secrets" default:"true"`
	// Services is what hpad cannot see of services, by "project/service".
	Services map[string]Service `toml:"services"`
}

// Service is one [fleets.NAME.services."PROJECT/SERVICE"] table.
type Service struct {
	// CopyPaths are absolute paths of files that Compose copied into the
	// containers: configs with content or environment, and secrets that are not
	// below /run/secrets.
	CopyPaths []string `toml:"copy_paths"`
	// PostStart are run in each new container that has started, PreStop before one
	// is stopped: Compose runs its own hooks for its own containers only.
	PostStart []Hook `toml:"post_start"`
	PreStop   []Hook `toml:"pre_stop"`
	// HoldStopped takes the place of the fleet's for this service; nil means the fleet's.
	HoldStopped *bool `toml:"hold_stopped"`
	// ReplaceFailed takes the place of the fleet's for this service; nil means the fleet's.
	ReplaceFailed *bool `toml:"replace_failed"`
}

// SetDefaults fills in what was not given, from the environment where it has it.
func (c *Config) SetDefaults() {
	c.Config.SetDefaults()
	settings.SetDefaults(c)
}

// Validate returns every mistake of a defaulted configuration, with paths below the
// fleet's table.
func (c *Config) Validate() []settings.FieldError {
	mistakes := append(c.Config.Validate(), settings.Validate(&c.Discovery)...)
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		field := "services." + strconv.Quote(name)
		if _, err := parseName(name); err != nil {
			mistakes = append(mistakes, settings.FieldError{Field: field, Value: strconv.Quote(name), Detail: `must be "project/service"`})
		}
		for _, mistake := range c.Services[name].validate() {
			mistake.Field = field + "." + mistake.Field
			mistakes = append(mistakes, mistake)
		}
	}
	return mistakes
}

func (s Service) validate() []settings.FieldError {
	var mistakes []settings.FieldError
	for i, p := range s.CopyPaths {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			mistakes = append(mistakes, settings.FieldError{
				Field: fmt.Sprintf("copy_paths[%d]", i), Value: strconv.Quote(p), Detail: `must be the absolute path of a file, as "/app.conf"`,
			})
		}
	}
	for i, hook := range s.PostStart {
		mistakes = append(mistakes, hook.validate(fmt.Sprintf("post_start[%d]", i))...)
	}
	for i, hook := range s.PreStop {
		mistakes = append(mistakes, hook.validate(fmt.Sprintf("pre_stop[%d]", i))...)
	}
	return mistakes
}

// Kind is the kind of fleets of Docker Compose.
var Kind = targets.Kind{
	Name:       "compose",
	Config:     func() targets.Config { return new(Config) },
	Target:     func() targets.Target { return new(Target) },
	Reference:  targets.Reference{Paths: []string{"{project}/{service}"}, Example: "shop/web", Workload: "{namespace}/{name}"},
	Samples:    true,
	Failing:    []policy.ConditionType{ContainersFailing},
	Unique:     true,
	LabelPlace: "the labels of the service, in the project's compose.yaml",
}

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env)
}

// Target is the part of an autoscaler's target table that a Compose fleet reads.
type Target struct {
	// Project is the name of the Compose project, Service one of its services.
	Project string `toml:"project"`
	Service string `toml:"service"`
}

// What Compose calls its projects and services.
var (
	projectName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	serviceName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)

// Validate returns every mistake of the target.
func (t *Target) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	switch {
	case t.Project == "":
		mistakes = append(mistakes, settings.FieldError{Field: "project", Detail: `is required: the name of a Compose project, as "docker compose ls" shows it`})
	case !projectName.MatchString(t.Project):
		mistakes = append(mistakes, settings.FieldError{Field: "project", Value: strconv.Quote(t.Project), Detail: "must be as Compose names projects: lower-case letters, digits, dashes and underscores"})
	}
	switch {
	case t.Service == "":
		mistakes = append(mistakes, settings.FieldError{Field: "service", Detail: "is required: the name of one of the project's services"})
	case !serviceName.MatchString(t.Service):
		mistakes = append(mistakes, settings.FieldError{Field: "service", Value: strconv.Quote(t.Service), Detail: "must be as Compose names services: letters, digits, dots, dashes and underscores"})
	}
	return mistakes
}

// Name returns the target's name in a targets.Ref: "project/service".
func (t *Target) Name() string { return key{t.Project, t.Service}.String() }

// key names a service on an engine.
type key struct{ project, service string }

func (k key) String() string { return k.project + "/" + k.service }

// parseName is the inverse of Target.Name.
func parseName(name string) (key, error) {
	project, service, ok := strings.Cut(name, "/")
	if !ok || !projectName.MatchString(project) || !serviceName.MatchString(service) {
		return key{}, fmt.Errorf("target %q is not as project/service", name)
	}
	return key{project: project, service: service}, nil
}
