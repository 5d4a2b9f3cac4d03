// Package exec implements fleets with a program of the operator as adapter. In mode "stream", the
// program runs all the time and exchanges messages of package adapter as lines of JSON. In mode
// "oneshot", hpad runs it once for each call. docs/fleets-http.md describes both modes.
package exec

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/proc"
)

// modeOneshot runs the program once for each call.
const modeOneshot = "oneshot"

// Config is one [fleets.NAME] table of kind "exec".
type Config struct {
	// Command is the program with its arguments. It runs without a shell, as hpad's user.
	Command []string `toml:"command" required:"a program with its arguments, such as [\"/etc/hpad/fleets/lxc.py\"]"`
	// Mode is "stream" for a program that runs all the time, or "oneshot" for a program that hpad
	// runs for each call.
	Mode string `toml:"mode" default:"stream" values:"stream oneshot"`
	// Env contains variables that are added to a minimal environment.
	Env map[string]string `toml:"env"`
	// OwnHost means that the program manages only hpad's own host. Each member of a cluster then has a fleet
	// of its own. Otherwise, the members share the fleet, and only its owner runs the program.
	OwnHost bool `toml:"own_host"`
	adapter.Common
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns all errors of a configuration with defaults applied. It does not check whether
// the program exists.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.Validate(c)
	if len(c.Command) > 0 && c.Command[0] == "" {
		errs = append(errs, settings.FieldError{Field: "command[0]", Value: `""`, Detail: "must be a program"})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(c.Env[name], "\x00") {
			errs = append(errs, settings.FieldError{Field: "env", Value: strconv.Quote(name), Detail: "must be the name of a variable, without \"=\" and null characters"})
		}
	}
	if c.Discover && c.Mode == modeOneshot {
		errs = append(errs, settings.FieldError{Field: "discover", Detail: "is not possible with mode = \"oneshot\""})
	}
	return errs
}

// Local reports whether the program manages only hpad's own host.
func (c *Config) Local() bool { return c.OwnHost }

// environ returns the environment of the program.
func (c *Config) environ(fleet string) []string {
	environment := append(proc.MinimalEnviron(), "HPAD_FLEET="+fleet, "HPAD_PROTOCOL="+strconv.Itoa(adapter.Protocol))
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		environment = append(environment, name+"="+c.Env[name])
	}
	return environment
}

// Build returns a fleet with this configuration. The program starts at the first call.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	if c.Mode == modeOneshot {
		return adapter.NewFleet(name, &c.Common, newOneshot(c, name), env), nil
	}
	log := io.Discard
	if env.Output != nil {
		log = env.Output(name, "adapter")
	}
	return adapter.NewFleet(name, &c.Common, newStream(c, name, log), env), nil
}

// Kind is the fleet kind "exec".
var Kind = adapter.NewKind("exec", func() targets.Config { return new(Config) })
