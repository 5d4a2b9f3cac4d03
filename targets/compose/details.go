package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/docker"
)

const (
	// inspecting is how many containers are inspected at once.
	inspecting = 16
	// detailsAge is after how long a container is inspected again although nothing seems
	// to have changed: "docker update" changes limits without a trace.
	detailsAge = 10 * time.Minute
)

// detail is what the list does not say of a container.
type detail struct {
	// started is when it was started last, finished when it ended last; zero when
	// it never did.
	started, finished time.Time
	exitCode          int
	// running reports that it ran when it was inspected, whatever the list said before:
	// its exit code is that of no end then.
	running bool
	// restarts is how often the engine has restarted it.
	restarts    int
	outOfMemory bool
	// end is how it ended. Signalled reports that it would look like a failure, but for
	// a signal among the engine's events, pending that these may still have to come.
	end                end
	signalled, pending bool
	// healthySince is when it became healthy, as far as the engine remembers; zero
	// when it is not.
	healthySince time.Time
	requests     []policy.Amount
	limits       limits

	// The list as it was when the container was inspected.
	name, state, health string
	asked               time.Time
}

// current reports whether nothing in a list contradicts what is known.
func (d *detail) current(m *member, now time.Time, w *follower) bool {
	switch {
	case m.name != d.name || m.State != d.state || m.health != d.health || now.Sub(d.asked) > detailsAge:
		return false
	case d.pending || m.State == container.StateRestarting: // each restart looks like the one before
		return false
	}
	return m.State != container.StateRunning || !w.startedSince(m.ID, d.asked)
}

// details are those of all containers that were read. They are safe for concurrent use.
type details struct {
	mu    sync.Mutex
	known map[string]*detail
}

// detailsOf returns the details of containers, inspecting those that are new or changed,
// and why it did not get them. A container that is gone by now is left out.
func (f *Fleet) detailsOf(ctx context.Context, members []*member, observed time.Time) (map[string]*detail, map[string]error) {
	answer, failed := make(map[string]*detail, len(members)), map[string]error{}
	var ask []*member
	f.details.mu.Lock()
	for _, m := range members {
		if known := f.details.known[m.ID]; known != nil && known.current(m, observed, &f.follower) {
			answer[m.ID] = known
			continue
		}
		ask = append(ask, m)
	}
	f.details.mu.Unlock()
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(inspecting)
	for _, m := range ask {
		group.Go(func() error {
			inspected, err := f.inspect(ctx, m.ID)
			var d *detail
			if inspected != nil {
				d = newDetail(m, inspected, observed)
				d.end, d.signalled, d.pending = f.endOf(m, inspected)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed[m.ID] = err
			case d != nil:
				answer[m.ID] = d
			}
			return nil
		})
	}
	_ = group.Wait() // each container has its own error
	f.details.mu.Lock()
	defer f.details.mu.Unlock()
	for _, m := range ask {
		if d := answer[m.ID]; d != nil {
			f.details.known[m.ID] = d
		}
	}
	return answer, failed
}

func (d *details) drop(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}

// ended returns in words how a container ended.
func (d *detail) ended() string {
	switch {
	case d.outOfMemory:
		return "was killed out of memory"
	case d.running:
		return "ended"
	}
	return fmt.Sprintf("exited with %d", d.exitCode)
}

// forget forgets the containers that are in no list any more.
func (d *details) forget(l *containerList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := make(map[string]bool, len(d.known))
	for _, members := range l.services {
		for _, m := range members {
			there[m.ID] = true
		}
	}
	for id := range d.known {
		if !there[id] {
			delete(d.known, id)
		}
	}
}

// inspect inspects a container; nil when there is none.
func (f *Fleet) inspect(ctx context.Context, id string) (*container.InspectResponse, error) {
	var inspected container.InspectResponse
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		inspected, err = c.ContainerInspect(ctx, id)
		return err
	})
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("inspect container %s: %w", shortID(id), err)
	case inspected.ContainerJSONBase == nil || inspected.State == nil || inspected.Config == nil || inspected.HostConfig == nil || inspected.NetworkSettings == nil:
		return nil, fmt.Errorf("inspect container %s: %w", shortID(id), f.engine.Error(errIncomplete))
	}
	return &inspected, nil
}

// newDetail keeps of an inspected container what readings need.
func newDetail(m *member, inspected *container.InspectResponse, observed time.Time) *detail {
	d := &detail{
		started: parseTime(inspected.State.StartedAt), finished: parseTime(inspected.State.FinishedAt),
		exitCode: inspected.State.ExitCode, running: inspected.State.Running && !inspected.State.Restarting, outOfMemory: inspected.State.OOMKilled, restarts: inspected.RestartCount,
		healthySince: healthySince(inspected.State.Health),
		requests:     docker.Requests(inspected.HostConfig),
		limits:       limitsOf(m, inspected),
		name:         m.name, state: m.State, health: m.health, asked: observed,
	}
	return d
}

// parseTime reads one of the engine's times; zero when it is none.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// healthySince returns the end of the first success after which no check failed.
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

// errIncomplete is the error of a response without the required fields.
var errIncomplete = errors.New("incomplete response")

// shortID is how Docker's command line shows an id.
func shortID(id string) string { return id[:min(12, len(id))] }
