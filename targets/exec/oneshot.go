package exec

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/adapter"
	"github.com/hpad/hpad/targets/proc"
)

// The exit statuses of a program in mode "oneshot", from sysexits.h. All others are failures.
const (
	exitHeld    = 65
	exitMissing = 66
	exitAgain   = 75
)

// maxRead is the maximum size of the state of one target, in bytes.
const maxRead = 1 << 20

// oneshot is the transport to a program that runs once for each call, at most one at a time. It is
// safe for concurrent use.
type oneshot struct {
	config  *Config
	environ []string
	// busy is full while the program runs.
	busy chan struct{}
}

func newOneshot(c *Config, fleet string) *oneshot {
	return &oneshot{config: c, environ: c.environ(fleet), busy: make(chan struct{}, 1)}
}

// Close does nothing, because no program runs between calls.
func (o *oneshot) Close() error { return nil }

// Call runs the program: once for each target of a snapshot, or once to scale a target.
func (o *oneshot) Call(ctx context.Context, request *adapter.Request) (*adapter.Response, error) {
	response := &adapter.Response{Protocol: adapter.Protocol, Name: o.config.Command[0], Targets: map[string]adapter.Target{}}
	switch request.Call {
	case adapter.Snapshot:
		for _, name := range request.Targets {
			output, err := o.run(ctx, nil, "read", name)
			if ctx.Err() != nil {
				return nil, adapter.Lost(request, fmt.Errorf("%d of %d targets read: %w", len(response.Targets), len(request.Targets), context.Cause(ctx)))
			}
			response.Targets[name] = targetOf(output, err)
		}
	case adapter.Scale:
		_, err := o.run(ctx, []string{"HPAD_REASON=" + request.Reason}, "scale", request.Target, strconv.Itoa(int(*request.From)), strconv.Itoa(int(*request.To)))
		if response.Error = exitError(err); err != nil && response.Error == nil {
			return nil, adapter.Lost(request, err)
		}
	}
	return response, nil
}

// exitError returns the error of a program that exited with another status than 0, and nil in all other
// cases.
func exitError(err error) *adapter.Error {
	exit, exited := errors.AsType[*exec.ExitError](err)
	if !exited || !exit.Exited() {
		return nil
	}
	code, known := map[int]adapter.ErrorCode{exitHeld: adapter.Held, exitMissing: adapter.NotFound, exitAgain: adapter.Unavailable}[exit.ExitCode()]
	if known {
		return &adapter.Error{Code: code, Message: strings.TrimPrefix(err.Error(), exit.Error()+": ")}
	}
	return &adapter.Error{Code: adapter.Failed, Message: err.Error()}
}

// targetOf parses the output of "read": a number, or a target as JSON.
func targetOf(output []byte, err error) adapter.Target {
	if failed := exitError(err); failed != nil {
		return adapter.Target{Error: failed}
	} else if err != nil {
		return adapter.Unreadable(err)
	}
	count, err := strconv.ParseInt(strings.TrimSpace(string(output)), 10, 32)
	if err == nil && count >= 0 {
		n := int32(count)
		return adapter.Target{Count: &n}
	}
	var target adapter.Target
	if err == nil || !strings.HasPrefix(strings.TrimSpace(string(output)), "{") {
		return adapter.Unreadable(fmt.Errorf("invalid output: it must be a count or a JSON object, and begins with %s", adapter.Excerpt(output)))
	}
	_ = target.UnmarshalJSON(output) // an error is part of the target
	target.Version = ""              // the arguments of scale contain none, so that hpad reads the count before each write
	return target
}

// run runs the program with a time limit.
func (o *oneshot) run(ctx context.Context, environ []string, arguments ...string) ([]byte, error) {
	select {
	case o.busy <- struct{}{}:
		defer func() { <-o.busy }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	limited, cancel := targets.WithCallTimeout(ctx, o.config.Timeout)
	defer cancel()
	return proc.Command{
		Program: slices.Concat(o.config.Command, arguments), Env: slices.Concat(o.environ, environ), MaxOutput: maxRead,
	}.Output(limited)
}
