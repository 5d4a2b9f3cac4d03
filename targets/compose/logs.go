package compose

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

const (
	// startInterval is the interval at which followed output checks whether a container runs again.
	startInterval = time.Second / 2
	// startGrace is the time in which "docker restart" starts a container again after its end.
	startGrace = 10 * time.Second
)

// WriteLogs writes the output of a container, if its logging driver stores it.
func (f *Fleet) WriteLogs(ctx context.Context, ref targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	k, err := parseName(ref.Name)
	if err != nil {
		return err
	}
	await := func(ctx context.Context, id string) (bool, error) { return f.awaitStart(ctx, k, id, startGrace) }
	return docker.WriteLogs(ctx, &f.config.Config, (*client.Client).ContainerLogs, await, id, query, to)
}

// awaitStart waits until a container runs again. It returns false if the container was removed, or
// if it does not start within grace and neither the engine nor hpad is going to start it.
func (f *Fleet) awaitStart(ctx context.Context, k key, id string, grace time.Duration) (bool, error) {
	m := &member{key: k, Summary: container.Summary{ID: id}}
	restarts := !f.dryRun && *cmp.Or(f.config.Services[k.String()].RestartFailed, f.config.RestartFailed)
	for until := time.Now().Add(grace); ; {
		select {
		case <-time.After(startInterval):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		inspected, err := f.inspect(ctx, id)
		if err != nil || inspected == nil {
			return false, err
		}
		how, _, unknown := f.endOf(m, inspected)
		switch inspected.State.Status {
		case container.StateRunning:
			return true, nil
		case container.StateRestarting:
		case container.StateDead, container.StateRemoving:
			return false, nil
		default:
			if !(restarts && (how == endFailed || unknown)) && time.Now().After(until) {
				return false, nil
			}
		}
	}
}
