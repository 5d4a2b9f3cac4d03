package gcemig

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

const (
	// mostRemoved is Compute Engine's limit for the number of instances in a call.
	mostRemoved = 1000
	// confirmedWithin is the time that a write waits for its operation to end, which reveals
	// impossible changes. firstConfirm and longestConfirm limit the growing pause between polls.
	confirmedWithin = 3 * time.Second
	firstConfirm    = 100 * time.Millisecond
	longestConfirm  = time.Second

	operationDone = "DONE"
)

// Fleet reads and scales the managed instance groups of one project. It is safe for
// concurrent use.
type Fleet struct {
	cloud.Fleet[Target, *compute.InstanceGroupManager, session]
	config      *Config
	autoscalers autoscalers
}

// New returns a fleet, which connects on first use. The configuration must be valid and have its
// defaults set; New does not modify it.
func New(name string, config *Config, env targets.Env) *Fleet {
	f := &Fleet{config: config}
	f.Limiter = cloud.NewLimiter(config.limits(), env.Meter)
	f.Limiter.Timeout, f.Limiter.Errors, f.Limiter.Lease = config.Timeout, &errorClasses, env.Lease
	f.Make = func(context.Context) (*session, error) { return newSession(config, f.Limiter) }
	f.Files = func() []string { return []string{config.Path()} }
	f.Drop = (*session).close
	f.Name, f.Place, f.Parse = name, fmt.Sprintf(" in project %q", config.Project), parseName
	f.Platform, f.Memory, f.Noun, f.DeletesAtOnce = f, cloud.NewMemory(env.Store), "group", mostRemoved
	f.FactsProblem = "start times, addresses and labels of instances are unknown"
	return f
}

// List implements cloud.Platform with one list call per 500 groups of the project.
func (f *Fleet) List(ctx context.Context, s *session, names []Target) (map[Target]*cloud.Group[*compute.InstanceGroupManager], error) {
	listing, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	groups := make(map[Target]*cloud.Group[*compute.InstanceGroupManager], len(names))
	var autoscalers []string
	for _, name := range names {
		groups[name] = listing.find(&name)
		if path := autoscalerOf(groups[name].Native); path != "" {
			autoscalers = append(autoscalers, path)
		}
	}
	f.autoscalers.refresh(ctx, s, autoscalers)
	return groups, nil
}

// Get implements cloud.Platform.
func (f *Fleet) Get(ctx context.Context, s *session, name Target) (*cloud.Group[*compute.InstanceGroupManager], error) {
	group, err := s.group(ctx, &name)
	if err != nil {
		return nil, err
	}
	return groupOf(group), nil
}

// Members implements cloud.Platform.
func (f *Fleet) Members(ctx context.Context, s *session, name Target, g *cloud.Group[*compute.InstanceGroupManager]) (*cloud.Listing, error) {
	instances, err := s.members(ctx, &name)
	if err != nil {
		return nil, err
	}
	listing := &cloud.Listing{Notice: launchNotice(instances)}
	for _, m := range instances {
		if member, counts := memberOf(m, watched(g.Native)); counts {
			listing.Members = append(listing.Members, member)
		}
	}
	return listing, nil
}

// Hold implements cloud.Platform.
func (f *Fleet) Hold(name Target, g *cloud.Group[*compute.InstanceGroupManager], _ *cloud.Listing) *policy.Hold {
	if hold := f.autoscalers.hold(&name, autoscalerOf(g.Native)); hold != nil {
		return hold
	}
	if !f.config.HoldDuringRollout || !rolling(g.Native) {
		return nil
	}
	return &policy.Hold{Reason: cloud.RolloutInProgress, Message: fmt.Sprintf("a proactive update of group %v is in progress", name)}
}

// Explain implements cloud.Platform. Instances that do not start have their own errors.
func (f *Fleet) Explain(context.Context, *session, Target, *cloud.Group[*compute.InstanceGroupManager]) (*policy.Notice, error) {
	return nil, nil
}

// Resize implements cloud.Platform.
func (f *Fleet) Resize(ctx context.Context, s *session, name Target, _ *cloud.Group[*compute.InstanceGroupManager], size int32) (string, error) {
	return "", s.change(ctx, &name, func() (*compute.Operation, error) { return s.resize(ctx, &name, size) })
}

// Delete implements cloud.Platform. Compute Engine ignores missing instances.
func (f *Fleet) Delete(ctx context.Context, s *session, name Target, _ *cloud.Group[*compute.InstanceGroupManager], urls []string) ([]string, error) {
	if err := s.change(ctx, &name, func() (*compute.Operation, error) { return s.remove(ctx, &name, urls) }); err != nil {
		return nil, err
	}
	return urls, nil
}

// change starts an operation, and waits briefly to see whether it fails. An operation that is
// still in progress is considered accepted.
func (s *session) change(ctx context.Context, t *Target, start func() (*compute.Operation, error)) error {
	last, err := start()
	if err != nil {
		return err
	}
	end := time.Now().Add(confirmedWithin)
	for pause := firstConfirm; last.Status != operationDone; pause = min(2*pause, longestConfirm) {
		if time.Now().Add(pause).After(end) || gax.Sleep(ctx, pause) != nil {
			return nil
		}
		next, err := s.follow(ctx, t, last.Name)
		if err != nil {
			return nil
		}
		last = next
	}
	return operationError(last)
}

func operationError(o *compute.Operation) error {
	if o.Error == nil && o.HttpErrorStatusCode < http.StatusBadRequest {
		return nil
	}
	answer := newAnswer(max(int(o.HttpErrorStatusCode), http.StatusBadRequest), "", o.HttpErrorMessage)
	if o.Error != nil && len(o.Error.Errors) > 0 {
		answer.Code = strings.ReplaceAll(o.Error.Errors[0].Code, "_", "")
		answer.Message = o.Error.Errors[0].Message
	}
	rules := changeRules
	if answer.Status >= http.StatusInternalServerError {
		rules = nil // the operation has ended, so its outcome is known
	}
	return fmt.Errorf("operation %s: %w", o.Name, answer.Classify(rules...))
}

// Tests implements cloud.Platform. It tries an empty change of a group version that does not exist.
func (f *Fleet) Tests(_ context.Context, s *session, _ map[Target]*cloud.Group[*compute.InstanceGroupManager]) (string, []cloud.PermissionTest[Target]) {
	return fmt.Sprintf("uses project %q", f.config.Project), []cloud.PermissionTest[Target]{
		{Permission: "compute.instanceGroupManagers.list", All: func(ctx context.Context) error {
			_, err := s.list(ctx)
			return err
		}},
		{Permission: "compute.instanceGroupManagers.get", Each: func(ctx context.Context, t Target) error {
			_, err := s.members(ctx, &t)
			return err
		}},
		{Permission: "compute.instanceGroupManagers.update", Each: func(ctx context.Context, t Target) error { return s.touch(ctx, &t) }},
		{
			Permission: "compute.instances.list", Without: "start times are the times of the first observation, and addresses and labels are unknown",
			All: func(ctx context.Context) error {
				_, err := s.allMachines(ctx, nil)
				return err
			},
		},
		{
			Permission: "compute.autoscalers.list", Without: "groups with an autoscaler of Compute Engine are held, even if it is off",
			All: func(ctx context.Context) error {
				_, err := s.autoscalers(ctx)
				return err
			},
		},
	}
}
