package compose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// SetReplicas starts copies of the service's newest replica, or gets rid of
// victims, if the containers are still those of version. New containers have
// started when it returns; victims are terminating. The engine has no place for
// the reason.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.base.Scale(ctx, ref, n, "service", func(ctx context.Context, k key) error {
		return f.setReplicas(ctx, k, n, version)
	})
}

func (f *Fleet) setReplicas(ctx context.Context, k key, n int32, version string) error {
	if err := f.load(ctx); err != nil {
		return err
	}
	if err := f.running(); err != nil {
		return err
	}
	end, err := f.turn(ctx, k)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	if err := f.inBackground(func() {
		err := f.scaleInTurn(ctx, k, n, version)
		end() // before the call returns, so that the next reading can repair the service
		done <- err
	}); err != nil {
		end()
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: containers are still being started: %w", targets.ErrUnknownOutcome, context.Cause(ctx))
	}
}

func (f *Fleet) scaleInTurn(ctx context.Context, k key, n int32, version string) error {
	l, err := f.list(ctx, k.project)
	if err != nil {
		return err
	}
	o := newOrder(k, l, int(n))
	if err := f.refuse(ctx, o, version); err != nil {
		return err
	}
	switch {
	case o.to < len(o.living):
		return f.shrink(ctx, o)
	case o.to > len(o.living):
		return f.grow(ctx, o)
	}
	return nil
}

// running returns why nothing can be changed; nil between Start and Close.
func (f *Fleet) running() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.Ended() || !f.started {
		return fmt.Errorf("%w: the fleet is not running", targets.ErrTransient)
	}
	return nil
}

// inBackground runs what Close waits for.
func (f *Fleet) inBackground(run func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.Ended() {
		return fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	}
	f.background.Go(run)
	return nil
}

// order is one change of a count under way.
type order struct {
	key key
	// members are all containers of the service, living those of its count.
	members, living []*member
	listing         *listing
	to              int
}

func newOrder(k key, l *listing, to int) *order {
	return &order{key: k, members: l.services[k], living: counted(l.services[k]), listing: l, to: to}
}

// refuse returns why a count cannot be set now; nil when it can, or is the one there is.
func (f *Fleet) refuse(ctx context.Context, o *order, version string) error {
	var zero targets.Reading
	if len(o.living) == 0 {
		if err := f.readZero(ctx, o.key, o.listing, &zero); err != nil {
			return err
		}
	}
	if found := versionOf(o.living); version != "" && version != found {
		return fmt.Errorf("%w: service %q has other containers than it was read with, %d of them", targets.ErrConflict, o.key, len(o.living))
	}
	if o.to == len(o.living) {
		return nil
	}
	held := cmp.Or(zero.Hold, hold(o.key, o.members))
	if held == nil && !slices.ContainsFunc(o.living, (*member).runs) {
		known, failed := f.detailsOf(ctx, o.living, o.listing.observed)
		for _, err := range failed {
			return err
		}
		held = f.holdStopped(o.key, o.living, known)
	}
	if held != nil {
		return &targets.HeldError{Hold: *held}
	}
	if o.to > len(o.living) {
		return o.waits(f.templates)
	}
	return nil
}

// waits returns whether a service that this one depends on keeps new containers from
// being started, as depends_on asks.
func (o *order) waits(templates templates) error {
	labels := map[string]string{}
	if from := source(o.living); from != nil {
		labels = from.Labels
	} else if t := templates.of(o.key); t != nil {
		labels = t.Blueprint.Config.Labels
	}
	for dependency := range strings.SplitSeq(labels[labelDependencies], ",") {
		service, condition, _ := strings.Cut(dependency, ":")
		condition, _, _ = strings.Cut(condition, ":")
		if service == "" {
			continue
		}
		k := key{project: o.key.project, service: service}
		members := counted(o.listing.services[k])
		if t := templates.of(k); len(members) == 0 && t != nil {
			continue // hpad itself has scaled it to 0
		}
		if lack := lacks(members, condition); lack != "" {
			return &targets.HeldError{Hold: policy.Hold{
				Reason:  DependencyNotReady,
				Message: fmt.Sprintf("service %q depends on %q (%s), which %s; new replicas wait for it", o.key.service, service, condition, lack),
			}}
		}
	}
	return nil
}

// lacks returns what the containers of a dependency lack of a condition of depends_on;
// "" for nothing.
func lacks(members []*member, condition string) string {
	if len(members) == 0 {
		if condition == "service_completed_successfully" {
			return "" // it was there, or nothing would be running
		}
		return "has no containers"
	}
	for _, m := range members {
		switch {
		case condition == "service_completed_successfully":
			if m.State != container.StateExited || m.phase() != policy.PhaseSucceeded {
				return fmt.Sprintf("has not completed: container %s is %s", m.name, m.Status)
			}
		case condition == "service_healthy" && m.health != container.Healthy:
			return fmt.Sprintf("is not healthy: container %s says %q", m.name, m.Status)
		case condition == "service_started" && m.State == container.StateRunning:
			return ""
		}
	}
	if condition == "service_started" {
		return fmt.Sprintf("does not run: container %s says %q", members[0].name, members[0].Status)
	}
	return ""
}

// shrink dooms victims. Before the last one goes it keeps what it takes to start again.
func (f *Fleet) shrink(ctx context.Context, o *order) error {
	if o.to == 0 {
		if err := f.takeTemplate(ctx, o.key, source(o.living), o.peers()); err != nil {
			return &targets.ReasonError{Reason: NoTemplate, Err: fmt.Errorf("what a new replica needs cannot be kept, so the last one stays: %w", err)}
		}
	}
	known, failed := f.detailsOf(ctx, o.living, o.listing.observed)
	for _, err := range failed {
		return err
	}
	instances, before := map[string]policy.Instance{}, f.memories.recall(o.key)
	for _, m := range o.living {
		if d := known[m.ID]; d != nil { // the state of a container that is gone is unknown
			instances[m.ID] = m.instance(judge(m, d, before[m.ID], o.listing.observed), nil)
		}
	}
	chosen := victims(o.living, instances, len(o.living)-o.to)
	if err := f.removals.doom(ctx, o.key, chosen, o.members); err != nil {
		return err
	}
	for _, m := range chosen {
		f.remove(o.key, m.ID, m.name)
	}
	return nil
}

// peers returns the other services of the project that have running containers, in
// order.
func (o *order) peers() []string {
	var names []string
	for k, members := range o.listing.services {
		if k != o.key && k.project == o.key.project && slices.ContainsFunc(counted(members), (*member).runs) {
			names = append(names, k.service)
		}
	}
	slices.Sort(names)
	return names
}
