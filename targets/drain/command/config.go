package command

import (
	"cmp"
	"os/exec"
	"strconv"
	"time"

	"github.com/hpad/hpad/settings"
)

// DefaultTimeout is how long one run of a command may take.
const DefaultTimeout = 30 * time.Second

// longestTimeout is less than what one call of any drainer gets.
const longestTimeout = 50 * time.Second

// Config is what is run.
type Config struct {
	// Command is a program with its arguments; no shell is in between.
	Command []string `toml:"command"`
	// Timeout bounds one run, which is killed then: up to 50s.
	Timeout time.Duration `toml:"timeout"`
}

// SetDefaults fills in what was not given.
func (c *Config) SetDefaults() { c.Timeout = cmp.Or(c.Timeout, DefaultTimeout) }

// Validate returns every mistake of a defaulted configuration. Whether the program is
// there is for Check.
func (c *Config) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	if len(c.Command) == 0 || c.Command[0] == "" {
		mistakes = append(mistakes, settings.FieldError{Field: "command", Detail: `is required: a program with its arguments, as ["/usr/local/bin/drain"]`})
	}
	if c.Timeout <= 0 || c.Timeout > longestTimeout {
		mistakes = append(mistakes, settings.FieldError{Field: "timeout", Value: strconv.Quote(c.Timeout.String()), Detail: "must be more than 0, and " + longestTimeout.String() + " at most"})
	}
	return mistakes
}

// Check returns an error unless the program is found.
func (c *Config) Check() error {
	_, err := exec.LookPath(c.Command[0])
	return err
}
