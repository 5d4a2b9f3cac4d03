// Package exec implements a source whose document is the output of a program.
package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/document"
	"github.com/hpad/hpad/targets/proc"
)

// Config is one [sources.NAME] table of kind "exec".
type Config struct {
	// Command is a program with its arguments; it runs without a shell, at most once per tick.
	Command []string `toml:"command" required:"a program with its arguments, such as [\"/usr/local/bin/queue-length\", \"work\"]"`
	// Env contains variables that are added to the program's environment, which otherwise contains only
	// PATH, HOME, USER, LOGNAME, LANG, LC_ALL, TZ, TMPDIR and CREDENTIALS_DIRECTORY of hpad.
	Env map[string]string `toml:"env"`
	// Format is the format of the output: "number", "json" or "prometheus" (the text format of metrics).
	Format document.Format `toml:"format" default:"number" values:"number json prometheus"`
	document.Limits
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns all errors of a configuration with defaults applied. It does not check whether the
// program exists.
func (c *Config) Validate() []settings.FieldError {
	errs := settings.FieldErrors(settings.Validate(c))
	for i, argument := range c.Command {
		if strings.Contains(argument, "\x00") {
			errs.Add(fmt.Sprintf("command[%d]", i), "", "must not contain a NUL character")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(c.Env[name], "\x00") {
			errs.Add("env."+name, "", "a variable's name must not be empty or contain an equals sign, and neither name nor value may contain a NUL character")
		}
	}
	return errs
}

// CheckQuery checks a query, as described in sources.Selector.
func (c *Config) CheckQuery(text string) (selector string, err error) {
	return c.Format.CheckQuery(text)
}

// Kind is the source kind "exec".
var Kind = sources.Kind{Name: "exec", Config: func() sources.Config { return new(Config) }}

// Build builds a source.
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	return document.New(name, c.Command[0], c.Format, c.Limits, env.Answers, c.run), nil
}

// run runs the program. It kills the program and its child processes at the timeout.
func (c *Config) run(ctx context.Context) (document.Page, error) {
	environment := proc.MinimalEnviron()
	for name, value := range c.Env {
		environment = append(environment, name+"="+value)
	}
	output, err := proc.Command{Program: c.Command, Env: environment, MaxOutput: int(c.MaxSize)}.Output(ctx)
	if _, large := errors.AsType[proc.OutputSizeError](err); large {
		err = fmt.Errorf("%w: print less, or increase max_size", err)
	}
	if err != nil {
		return document.Page{}, err
	}
	return document.Page{Text: output}, nil
}
