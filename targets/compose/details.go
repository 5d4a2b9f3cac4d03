package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

const (
	// maxInspects limits the concurrent inspections.
	maxInspects = 16
	// detailsAge is the age after which a container is inspected again even if its list entry
	// has not changed, because the list does not show when "docker update" changes limits.
	detailsAge = 10 * time.Minute
	// healthAge is the age after which an unhealthy container is inspected again.
	healthAge = 30 * time.Second
)

// detail contains the properties of a container that only an inspection returns.
type detail struct {
	// started is the time of the last start, and finished the time of the last exit. They are zero
	// if the container never started or never exited.
	started, finished time.Time
	exitCode          int
	// running reports whether the container was running when it was inspected, even if the list
	// differs. exitCode is then invalid.
	running bool
	// restarts is the number of restarts by the engine.
	restarts    int
	outOfMemory bool
	// end classifies the last exit. signalled reports that the exit looks like a failure but
	// followed a signal in the engine's events. pending reports that events may still be
	// missing.
	end                end
	signalled, pending bool
	// healthySince is the time when the container became healthy, as far as the engine has
	// recorded it. It is zero if the container is not healthy.
	healthySince time.Time
	// unlisted is the health if the list does not show it, as with Podman.
	unlisted string
	// check is the last health check if it failed.
	check          failedCheck
	requests       []policy.Amount
	resourceLimits []policy.Amount // the cpu and memory limits
	limits         limits

	// name, state and health are the values in the list before the inspection, which started at the
	// time asked.
	name, state, health string
	asked               time.Time
}

// current reports whether the details are consistent with the list and recent enough.
func (d *detail) current(m *member, now time.Time, w *follower) bool {
	switch {
	case d.unlisted != "" && d.asked.Before(now):
		return false
	case m.name != d.name || m.State != d.state || m.health != d.health || now.Sub(d.asked) > detailsAge:
		return false
	case m.health != "" && m.health != container.Healthy && now.Sub(d.asked) > healthAge: // for the output of the last check
		return false
	case d.pending || m.State == container.StateRestarting: // the list does not distinguish one restart from the next
		return false
	}
	return m.State != container.StateRunning || !w.startedSince(m.ID, d.asked)
}

// detailsOf returns the details of containers and the errors of inspections. It inspects new and
// changed containers. Containers that no longer exist are left out.
func (f *Fleet) detailsOf(ctx context.Context, members []*member, observed time.Time) (map[string]*detail, map[string]error) {
	result, failed := make(map[string]*detail, len(members)), map[string]error{}
	var changed []*member
	f.mu.Lock()
	for _, m := range members {
		if known := f.details[m.ID]; known != nil && known.current(m, observed, &f.follower) {
			result[m.ID] = known
			continue
		}
		changed = append(changed, m)
	}
	f.mu.Unlock()
	found, errs := make([]*detail, len(changed)), make([]error, len(changed))
	var group guard.Group
	group.SetLimit(maxInspects)
	for n, m := range changed {
		group.Go(func() error {
			var inspected *container.InspectResponse
			if inspected, errs[n] = f.inspect(ctx, m.ID, m.name); inspected != nil {
				found[n] = newDetail(m, inspected, observed)
				found[n].end, found[n].signalled, found[n].pending = f.endOf(m, inspected)
			}
			return nil
		})
	}
	_ = group.Wait() // each container has its own error
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, m := range changed {
		switch {
		case errs[n] != nil:
			failed[m.ID] = errs[n]
		case found[n] != nil:
			result[m.ID], f.details[m.ID] = found[n], found[n]
			m.health = cmp.Or(m.health, found[n].unlisted)
		}
	}
	return result, failed
}

func (f *Fleet) dropDetail(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.details, id)
}

// ended describes how a container ended.
func (d *detail) ended() string {
	switch {
	case d.outOfMemory:
		return "ran out of memory and was killed"
	case d.running:
		return "ended"
	}
	return fmt.Sprintf("exited with %d", d.exitCode)
}

// forgetDetails deletes the details of containers that are not in the list.
func (f *Fleet) forgetDetails(l *containerList) {
	exists := map[string]bool{}
	for _, members := range l.services {
		for _, m := range members {
			exists[m.ID] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.details, func(id string, _ *detail) bool { return !exists[id] })
}

// inspect returns the result of an inspection, or nil if the container does not exist. name is for
// errors.
func (f *Fleet) inspect(ctx context.Context, id, name string) (*container.InspectResponse, error) {
	var inspected container.InspectResponse
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		inspected, err = c.ContainerInspect(ctx, id)
		return err
	})
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("inspect container %s: %w", name, err)
	case inspected.ContainerJSONBase == nil || inspected.State == nil || inspected.Config == nil || inspected.HostConfig == nil || inspected.NetworkSettings == nil:
		return nil, fmt.Errorf("inspect container %s: %w", name, f.engine.Error(errIncomplete))
	}
	return &inspected, nil
}

func newDetail(m *member, inspected *container.InspectResponse, observed time.Time) *detail {
	d := &detail{
		started: parseTime(inspected.State.StartedAt), finished: parseTime(inspected.State.FinishedAt),
		exitCode: inspected.State.ExitCode, running: inspected.State.Running && !inspected.State.Restarting, outOfMemory: inspected.State.OOMKilled, restarts: inspected.RestartCount,
		healthySince:   healthySince(inspected.State.Health),
		check:          failedCheckOf(inspected.State.Health),
		requests:       docker.Requests(inspected.HostConfig),
		resourceLimits: docker.Limits(inspected.HostConfig),
		limits:         limitsOf(m, inspected),
		name:           m.name, state: m.State, health: m.health, asked: observed,
	}
	if h := inspected.State.Health; h != nil && m.health == "" && m.State == container.StateRunning && h.Status != container.NoHealthcheck {
		d.unlisted = h.Status
	}
	return d
}

// parseTime parses a time from the engine. It returns the zero time for year 1, which the engine
// uses for "never", and for invalid text.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// healthySince returns the end time of the first check in the latest unbroken series of
// successes.
func healthySince(h *container.Health) time.Time {
	if h == nil || h.Status != container.Healthy {
		return time.Time{}
	}
	var since time.Time
	for _, result := range slices.Backward(h.Log) {
		if result == nil || result.ExitCode != 0 {
			break
		}
		since = result.End
	}
	return since
}

// failedCheck is the result of a failed health check. The exit status is 0 if no check failed.
type failedCheck struct {
	status int
	output string
}

func failedCheckOf(h *container.Health) failedCheck {
	if h == nil || len(h.Log) == 0 {
		return failedCheck{}
	}
	last := h.Log[len(h.Log)-1]
	if last == nil || last.ExitCode == 0 {
		return failedCheck{}
	}
	return failedCheck{last.ExitCode, targets.Phrase(last.Output)}
}

var errIncomplete = errors.New("incomplete response")

// shortID shortens an ID as Docker's command line does.
func shortID(id string) string { return id[:min(12, len(id))] }
