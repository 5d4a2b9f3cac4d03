// Package command drains instances by running a program that the operator provides.
//
// The program runs with hpad's environment, without the service manager's variables, and with:
//
//	HPAD_ACTION     begin, drained, undo or finish
//	HPAD_TARGET     the target, as fleet/name
//	HPAD_INSTANCE   the instance's id
//	HPAD_NAME       its name, or its id
//	HPAD_NODE       its host; may be empty
//	HPAD_ADDRESSES  its addresses, separated by spaces
//	HPAD_LABELS     its labels on the platform, as a JSON object
//	HPAD_DEADLINE   the end of the drain, as 2026-01-31T15:04:05Z
//
// Exit code 0 means that the action is complete; for drained, 75 means that work remains.
package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/proc"
)

// notYet is the exit code for remaining work: EX_TEMPFAIL in sysexits.h.
const notYet = 75

// Drainer is a drain.Drainer. It is safe for concurrent use.
type Drainer struct {
	drain.Func
	config Config
}

// New returns a drainer. The configuration must be valid and have its defaults set.
func New(config Config) *Drainer {
	d := &Drainer{config: config}
	d.Func = d.run
	return d
}

// maxOutput is the maximum length of the output in an error, in bytes.
const maxOutput = 300

// run runs the command once, and kills it and its child processes at the timeout.
func (d *Drainer) run(ctx context.Context, action string, instance drain.Instance) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	labels := []byte("{}")
	if instance.Labels != nil {
		labels, _ = json.Marshal(instance.Labels) // a map of strings never fails
	}
	output, err := proc.Run(ctx, d.config.Command, []string{
		"HPAD_ACTION=" + action,
		"HPAD_TARGET=" + instance.Target.String(),
		"HPAD_INSTANCE=" + instance.ID,
		"HPAD_NAME=" + cmp.Or(instance.Name, instance.ID),
		"HPAD_NODE=" + instance.Node,
		"HPAD_ADDRESSES=" + strings.Join(instance.Addresses, " "),
		"HPAD_LABELS=" + string(labels),
		"HPAD_DEADLINE=" + instance.Deadline.UTC().Format(time.RFC3339),
	}, maxOutput)
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("killed after the drain timeout of %v: %w", d.config.Timeout, context.Cause(ctx))
	case action == "drained" && exited && exit.ExitCode() == notYet:
		return false, nil
	}
	if output != "" {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return false, fmt.Errorf("run %q with HPAD_ACTION=%s for instance %s: %w", d.config.Command[0], action, instance.ID, err)
}

// Config is the [drain] table of kind "command".
type Config struct {
	// Command is a program with its arguments; it runs without a shell.
	Command []string `toml:"command" required:"a program with its arguments, such as [\"/usr/local/bin/drain\"]"`
	// Timeout is the time limit for one run, after which the command is killed: up to 50s.
	Timeout time.Duration `toml:"timeout" default:"30s" above:"0s" max:"50s" must:"more than 0, and 50s at most"`
}

// SetDefaults sets missing values to their defaults.
func (c *Config) SetDefaults() { settings.SetDefaults(c) }

// Validate returns all errors in the table. It does not check whether the program exists.
// SetDefaults must be called first.
func (c *Config) Validate() []settings.FieldError { return settings.Validate(c) }

// Check returns an error unless the program is found.
func (c *Config) Check() error {
	_, err := exec.LookPath(c.Command[0])
	return err
}

// Kind is the drain kind "command".
var Kind = drain.Kind{Name: "command", Config: func() drain.Config { return new(Config) }}

// Build builds a drainer from the table.
func (c *Config) Build(targets.Fleet) (drain.Drainer, error) { return New(*c), nil }
