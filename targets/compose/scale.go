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

// SetReplicas starts copies of the service's newest replica, or removes victims, if the service
// still has the containers of version. When it returns, new containers have started and victims are
// terminating. The reason is ignored, because the engine does not record it.
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
	unlock, err := f.lock(ctx, k)
	if err != nil {
		return err
	}
	done, ended := make(chan error, 1), make(chan struct{})
	if err := f.inBackground(func() {
		err := f.scaleLocked(ctx, k, n, version)
		unlock() // before the call returns, so that the next reading can repair the service
		close(ended)
		done <- err
	}); err != nil {
		unlock()
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		f.mu.Lock()
		f.overdue[k] = ended
		f.mu.Unlock()
		return fmt.Errorf("%w: containers are still being started: %w", targets.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// stillStarting returns the services whose write exceeded its deadline and still starts a container.
// Their count changes once more without a write, which would look like a change by an external writer.
func (f *Fleet) stillStarting() map[key]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	starting := map[key]bool{}
	for k, ended := range f.overdue {
		select {
		case <-ended:
			delete(f.overdue, k)
		default:
			starting[k] = true
		}
	}
	return starting
}

func (f *Fleet) scaleLocked(ctx context.Context, k key, n int32, version string) error {
	l, err := f.list(ctx, k.project)
	if err != nil {
		return err
	}
	c := newChange(k, l, int(n))
	if err := f.refuse(ctx, c, version); err != nil {
		return err
	}
	switch {
	case c.to < len(c.living):
		return f.scaleDown(ctx, c)
	case c.to > len(c.living):
		return f.scaleUp(ctx, c)
	}
	return nil
}

// running returns an ErrTransient if Start was not called or the fleet is closed.
func (f *Fleet) running() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.IsClosed() || !f.started {
		return fmt.Errorf("%w: the fleet is not running", targets.ErrTransient)
	}
	return nil
}

// inBackground runs a function in the background. Close waits for it.
func (f *Fleet) inBackground(run func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.IsClosed() {
		return fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	}
	f.background.Go(run)
	return nil
}

// change creates, starts or removes containers of one service, which is locked.
type change struct {
	key key
	// members contains all containers of the service, and living those that are part of its
	// replica count.
	members, living []*member
	list            *containerList
	to              int
}

func newChange(k key, l *containerList, to int) *change {
	return &change{key: k, members: l.services[k], living: counted(l.services[k]), list: l, to: to}
}

// refuse returns an error if a count cannot be set now. A count that is already set is not an
// error.
func (f *Fleet) refuse(ctx context.Context, c *change, version string) error {
	var zero targets.Reading
	if len(c.living) == 0 {
		if err := f.readZero(ctx, c.key, c.list, &zero); err != nil {
			return err
		}
	}
	if found := versionOf(c.living); version != "" && version != found {
		return fmt.Errorf("%w: the containers of service %q have changed since the reading: there are now %d", targets.ErrConflict, c.key, len(c.living))
	}
	if c.to == len(c.living) {
		return nil
	}
	held := cmp.Or(zero.Hold, hold(c.key, c.members))
	if held == nil && !slices.ContainsFunc(c.living, (*member).runs) {
		known, failed := f.detailsOf(ctx, c.living, c.list.observed)
		for _, err := range failed {
			return err
		}
		held = f.stoppedHold(c.key, c.living, known)
	}
	if held != nil {
		return &targets.HeldError{Hold: *held}
	}
	if c.to > len(c.living) {
		return c.waits(f.store)
	}
	return nil
}

// waits returns a HeldError if a service in depends_on does not meet its condition.
func (c *change) waits(s *store) error {
	labels := map[string]string{}
	if from := source(c.living); from != nil {
		labels = from.Labels
	} else if t := s.template(c.key); t != nil {
		labels = t.Blueprint.Config.Labels
	}
	for dependency := range strings.SplitSeq(labels[labelDependencies], ",") {
		service, condition, _ := strings.Cut(dependency, ":")
		condition, _, _ = strings.Cut(condition, ":")
		if service == "" {
			continue
		}
		k := key{project: c.key.project, service: service}
		members := counted(c.list.services[k])
		if len(members) == 0 && s.template(k) != nil {
			continue // hpad has scaled it to 0
		}
		if problem := unmet(members, condition); problem != "" {
			return &targets.HeldError{Hold: policy.Hold{
				Reason:  DependencyNotReady,
				Message: fmt.Sprintf("service %q depends on %q (%s), which %s; new replicas wait for it", c.key.service, service, condition, problem),
			}}
		}
	}
	return nil
}

// unmet describes why the containers of a service do not meet a condition of depends_on. It
// returns "" if they do.
func unmet(members []*member, condition string) string {
	if len(members) == 0 {
		if condition == "service_completed_successfully" {
			return "" // it was met when the dependent service was started
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
			return fmt.Sprintf("is not healthy: the status of container %s is %q", m.name, m.Status)
		case condition == "service_started" && m.State == container.StateRunning:
			return ""
		}
	}
	if condition == "service_started" {
		return fmt.Sprintf("is not running: the status of container %s is %q", members[0].name, members[0].Status)
	}
	return ""
}

// scaleDown stores the victims and starts to remove them. Before a scale-down to 0, it stores
// the template.
func (f *Fleet) scaleDown(ctx context.Context, c *change) error {
	if c.to == 0 {
		if err := f.takeTemplate(ctx, c.key, source(c.living), c.peers()); err != nil {
			return &targets.ReasonError{Reason: noTemplate, Err: fmt.Errorf("the last replica is not removed, because its settings cannot be stored: %w", err)}
		}
	}
	known, failed := f.detailsOf(ctx, c.living, c.list.observed)
	for _, err := range failed {
		return err
	}
	instances, before := map[string]policy.Instance{}, f.store.of(c.key).Instances
	for _, m := range c.living {
		if d := known[m.ID]; d != nil { // nil if the container no longer exists
			instances[m.ID] = m.instance(nextRecord(m, d, before[m.ID], c.list.observed), nil)
		}
	}
	chosen := victims(c.living, instances, len(c.living)-c.to)
	if err := f.storeVictims(ctx, c.key, chosen, c.members); err != nil {
		return err
	}
	f.remove(c.key, namesOf(chosen))
	return nil
}

// peers returns the other services of the project that have running containers, in order.
func (c *change) peers() []string {
	var names []string
	for k, members := range c.list.services {
		if k != c.key && k.project == c.key.project && slices.ContainsFunc(counted(members), (*member).runs) {
			names = append(names, k.service)
		}
	}
	slices.Sort(names)
	return names
}
