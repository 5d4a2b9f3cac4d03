package compose

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

const (
	// startInterval is the time between two checks whether a followed container runs again.
	startInterval = time.Second / 2
	// startGrace is the maximum time between the end and the start of a container during "docker
	// restart".
	startGrace = 10 * time.Second
)

// WriteLogs writes the output of a container, if its logging driver stores it.
func (f *Fleet) WriteLogs(ctx context.Context, ref targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	k, err := parseName(ref.Name)
	if err != nil {
		return err
	}
	if query.Previous {
		return f.writePrevious(ctx, id, query, to)
	}
	await := func(ctx context.Context, id string) (bool, error) { return f.awaitStart(ctx, k, id, startGrace) }
	return docker.WriteLogs(ctx, &f.config.Config, (*client.Client).ContainerLogs, await, id, query, to)
}

// awaitStart waits until a container runs again. It returns false if the container was removed, or
// if it does not start within grace, unless the engine or hpad restarts it later.
func (f *Fleet) awaitStart(ctx context.Context, k key, id string, grace time.Duration) (bool, error) {
	m := &member{key: k, Summary: container.Summary{ID: id}}
	restarts := !f.dryRun && *cmp.Or(f.config.Services[k.String()].RestartFailed, f.config.RestartFailed)
	for until := time.Now().Add(grace); ; {
		select {
		case <-time.After(startInterval):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		inspected, err := f.inspect(ctx, id, shortID(id))
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
			if restarts := restarts && (how == endFailed || unknown); !restarts && time.Now().After(until) {
				return false, nil
			}
		}
	}
}

// writePrevious writes the output before the current start of a container. The engine applies the
// number of lines before it applies the time, so hpad selects the last lines.
func (f *Fleet) writePrevious(ctx context.Context, id string, query targets.LogQuery, to io.Writer) error {
	inspected, err := f.inspect(ctx, id, shortID(id))
	if err != nil {
		return err
	}
	if inspected == nil {
		return targets.ErrTargetNotFound
	}
	until := ""
	if started, finished := parseTime(inspected.State.StartedAt), parseTime(inspected.State.FinishedAt); inspected.State.Running {
		if finished.IsZero() || finished.After(started) {
			return errors.New("the container has not restarted")
		}
		// The last lines of the old run can be later than its end, and the first lines of the new
		// run earlier than its start.
		until = finished.Add(started.Sub(finished) / 2).Format(time.RFC3339Nano)
	}
	open := func(c *client.Client, ctx context.Context, id string, options container.LogsOptions) (io.ReadCloser, error) {
		options.Tail, options.Until = "all", until
		return c.ContainerLogs(ctx, id, options)
	}
	last := &lastLines{most: query.Lines}
	if err := docker.WriteLogs(ctx, &f.config.Config, open, nil, id, query, last); err != nil {
		return err
	}
	_, err = to.Write(slices.Concat(append(last.lines, last.rest)...))
	return err
}

// maxPrevious limits the size of the previous output in bytes.
const maxPrevious = 8 << 20

// lastLines keeps the last lines that are written to it, up to maxPrevious.
type lastLines struct {
	most  int
	lines [][]byte
	// rest is the incomplete last line. size is the total size of lines and rest.
	rest []byte
	size int
}

func (l *lastLines) Write(part []byte) (int, error) {
	for line := range bytes.Lines(part) {
		l.rest = append(l.rest, line...)
		l.size += len(line)
		if l.rest[len(l.rest)-1] == '\n' || len(l.rest) > maxPrevious {
			l.lines, l.rest = append(l.lines, l.rest), nil
		}
		for len(l.lines) > l.most || l.size > maxPrevious && len(l.lines) > 0 {
			l.size -= len(l.lines[0])
			l.lines = l.lines[1:]
		}
	}
	return len(part), nil
}
