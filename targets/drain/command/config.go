package command

import (
	"os/exec"
	"time"

	"github.com/hpad/hpad/settings"
)

// Config is what is run.
type Config struct {
	// Command is a program with its arguments; no shell is in between.
	Command []string `toml:"command"`
	// Timeout bounds one run, which is killed then: up to 50s.
	Timeout time.Duration `toml:"timeout" default:"30s" above:"0s" max:"50s" must:"more than 0, and 50s at most"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns every mistake of a defaulted configuration. Whether the program is
// there is for Check.
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	if len(c.Command) == 0 || c.Command[0] == "" {
		mistakes = append(mistakes, settings.FieldError{Field: "command", Detail: `is required: a program with its arguments, as ["/usr/local/bin/drain"]`})
	}
	return append(mistakes, settings.Validate(c)...)
}

// Check returns an error unless the program is found.
func (c *Config) Check() error {
	_, err := exec.LookPath(c.Command[0])
	return err
}
