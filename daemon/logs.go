package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
)

const (
	// maxLastOutput is the maximum number of characters in the last output of an instance.
	maxLastOutput = 200
	// lastOutputBytes limits the output that is searched for the last line and for secrets.
	lastOutputBytes = 64 << 10
)

// WriteLogs implements [api.Daemon]. The error is an api.ErrUnknown if the autoscaler or the
// instance does not exist, and an api.ErrRefused if the output cannot be read.
func (d *Daemon) WriteLogs(ctx context.Context, name, instance string, query targets.LogQuery, to io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.env.RunContext, func() { cancel(round.ErrStopping) })()
	a := d.scheduler.Current().Autoscalers[name]
	if a == nil {
		return fmt.Errorf("autoscaler %q: %w", name, api.ErrUnknown)
	}
	ref := a.Definition().Target
	reading, err := d.readEndpoints(ctx, &endpoints.Target{Autoscaler: name, Ref: ref}, true)
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrRefused, err)
	}
	id, err := findInstance(name, &reading, instance)
	if err != nil {
		return err
	}
	logger := d.logger(ref)
	if logger == nil {
		return fmt.Errorf("%w: hpad cannot read the output of instances of this kind: use the tools of the platform", api.ErrRefused)
	}
	if query.Follow {
		var watching guard.Tasks
		defer watching.Wait()
		defer cancel(nil)
		watching.Go(func() {
			if d.awaitRemoval(ctx, name, ref, id) {
				cancel(errRemoved)
			}
		})
	}
	if err := logger.WriteLogs(ctx, ref, id, query, to); err != nil && !errors.Is(context.Cause(ctx), errRemoved) {
		return fmt.Errorf("%w: read the output of %q: %w", api.ErrRefused, cmp.Or(instance, name), err)
	}
	return nil
}

// errRemoved ends the output of an instance that was removed.
var errRemoved = errors.New("the instance was removed")

const (
	// removalInterval is the interval at which followed output checks whether its instance exists.
	removalInterval = 3 * time.Second
	// lastOutputDelay is the time in which the last output of a removed instance arrives.
	lastOutputDelay = time.Second
)

// awaitRemoval waits until an instance is no longer part of an autoscaler's target, and its output
// has arrived. It returns false if ctx ends first. A failed reading is ignored.
func (d *Daemon) awaitRemoval(ctx context.Context, name string, ref targets.Ref, id string) bool {
	wait := func(interval time.Duration) bool {
		select {
		case <-time.After(interval):
			return true
		case <-ctx.Done():
			return false
		}
	}
	for wait(removalInterval) {
		a := d.scheduler.Current().Autoscalers[name]
		exists := a != nil && a.Definition().Target == ref
		if exists {
			reading, err := d.readEndpoints(ctx, &endpoints.Target{Autoscaler: name, Ref: ref}, true)
			exists = err != nil || slices.ContainsFunc(reading.Instances, func(i policy.Instance) bool { return i.ID == id })
		}
		if !exists {
			return wait(lastOutputDelay)
		}
	}
	return false
}

// logger returns the fleet of a target, or nil if it is not a Logger.
func (d *Daemon) logger(ref targets.Ref) targets.Logger {
	fleet := d.scheduler.Current().Fleets[ref.Fleet]
	if fleet == nil {
		return nil
	}
	logger, _ := fleet.Inner.(targets.Logger)
	return logger
}

// shortestID is the length of the shortest IDs that tools of platforms print.
const shortestID = 8

// findInstance returns the ID of an autoscaler's instance, given its ID, the start of its ID, its
// name, or an empty text for the only instance.
func findInstance(autoscaler string, reading *targets.Reading, given string) (string, error) {
	var names, begin []string
	for i := range reading.Instances {
		id, name := reading.Instances[i].ID, reading.NameOf(i)
		if given == id || given == name || given == "" && len(reading.Instances) == 1 {
			return id, nil
		}
		if len(given) >= shortestID && strings.HasPrefix(id, given) {
			begin = append(begin, id)
		}
		names = append(names, name)
	}
	if len(begin) == 1 {
		return begin[0], nil
	}
	listed := targets.FirstThree(names, ", ")
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%w: autoscaler %q has no instances", api.ErrRefused, autoscaler)
	case given == "":
		return "", fmt.Errorf("%w: choose an instance of %q: %s", api.ErrRefused, autoscaler, listed)
	}
	return "", fmt.Errorf("instance %q of %q: %w; the instances are: %s", given, autoscaler, api.ErrUnknown, listed)
}

// addLastOutput adds the last line of output to failing instances, if it can be read.
func (d *Daemon) addLastOutput(ctx context.Context, ref targets.Ref, list *api.InstanceList) {
	logger := d.logger(ref)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := range list.Instances {
		if one := &list.Instances[i]; one.Failing && logger != nil && ctx.Err() == nil {
			output := proc.Tail{Limit: lastOutputBytes}
			_ = logger.WriteLogs(ctx, ref, one.ID, targets.LogQuery{Lines: 3}, &output) // the output is optional
			one.LastOutput = lastLine(output.String())
		}
	}
}

// lastLine returns the last line that is not blank, without secrets.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	letters := []rune(redact.Text(text[strings.LastIndexByte(text, '\n')+1:]))
	if len(letters) > maxLastOutput {
		letters = append(letters[:maxLastOutput-1], '…')
	}
	return string(letters)
}
