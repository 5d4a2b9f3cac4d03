package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/hpad/hpad/settings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Hook is a command that runs inside a container, like post_start and pre_stop in Compose.
type Hook struct {
	// Command contains the program and its arguments.
	Command []string `toml:"command" required:"the program and its arguments, such as [\"/bin/drain\", \"-v\"]"`
	// User is the account that runs the command. If it is empty, the container's user runs it.
	User string `toml:"user"`
	// Privileged gives the command all capabilities.
	Privileged bool `toml:"privileged"`
	// WorkingDir is the working directory. If it is empty, the container's working directory is
	// used.
	WorkingDir string `toml:"working_dir"`
	// Environment contains variables that are added to the container's environment.
	Environment map[string]string `toml:"environment" secret:"true"`
	// Timeout limits the run time. 0 means 30s.
	Timeout time.Duration `toml:"timeout" min:"0s"`
}

// defaultHookTimeout is the default of Hook.Timeout.
const defaultHookTimeout = 30 * time.Second

func (h Hook) validate(field string) []settings.FieldError {
	if h.WorkingDir == "" || path.IsAbs(h.WorkingDir) {
		return nil
	}
	return []settings.FieldError{{Field: field + ".working_dir", Value: strconv.Quote(h.WorkingDir), Detail: "must be an absolute path"}}
}

const hookPollInterval = 100 * time.Millisecond

// runHook runs a command in a container and waits until it exits. An exit code other than 0 is
// an error.
func (f *Fleet) runHook(id string, h Hook) error {
	limit := cmp.Or(h.Timeout, defaultHookTimeout)
	ctx, cancel := context.WithTimeout(f.ctx, limit)
	defer cancel()
	var environment []string
	for _, name := range slices.Sorted(maps.Keys(h.Environment)) {
		environment = append(environment, name+"="+h.Environment[name])
	}
	var exec string
	err := f.engine.Write(ctx, func(ctx context.Context, c *client.Client) error {
		created, err := c.ContainerExecCreate(ctx, id, container.ExecOptions{
			User: h.User, Privileged: h.Privileged, WorkingDir: h.WorkingDir, Env: environment, Cmd: h.Command,
		})
		if err != nil {
			return err
		}
		exec = created.ID
		return c.ContainerExecStart(ctx, exec, container.ExecStartOptions{Detach: true})
	})
	if err != nil {
		return fmt.Errorf("run %q: %w", h.Command, err)
	}
	for {
		select {
		case <-time.After(hookPollInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w: run %q: it did not exit within %v", targets.ErrTransient, h.Command, limit)
		}
		var state container.ExecInspect
		err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) (err error) {
			state, err = c.ContainerExecInspect(ctx, exec)
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("run %q: %w", h.Command, err)
		case !state.Running && state.ExitCode != 0:
			return fmt.Errorf("%w: run %q: it exited with code %d", targets.ErrTransient, h.Command, state.ExitCode)
		case !state.Running:
			return nil
		}
	}
}

func (f *Fleet) afterStart(k key, id string) error {
	for _, h := range f.config.Services[k.String()].PostStart {
		if err := f.runHook(id, h); err != nil {
			return fmt.Errorf("post_start: %w", err)
		}
	}
	return nil
}

// beforeStop runs the pre_stop hooks of a service in a container. An error does not prevent the
// stop; it is shown as a problem of the fleet until the hooks succeed again.
func (f *Fleet) beforeStop(k key, id, containerName string) {
	hooks := f.config.Services[k.String()].PreStop
	if len(hooks) == 0 {
		return
	}
	name, text := "pre_stop "+k.String(), ""
	for _, h := range hooks {
		err := f.runHook(id, h)
		if f.ctx.Err() != nil || isNotFound(err) || errors.Is(err, targets.ErrConflict) { // the container is not running
			return
		}
		if err != nil {
			text = fmt.Sprintf("pre_stop of container %s: %v", containerName, err)
			break
		}
	}
	f.setError(name, text)
}
