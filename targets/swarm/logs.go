package swarm

import (
	"context"
	"io"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// WriteLogs writes the output of a task, if its logging driver stores it.
func (f *Fleet) WriteLogs(ctx context.Context, _ targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	_, err := targets.CallUnlessClosed(ctx, &f.base, "read the output of a task of", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, docker.WriteLogs(ctx, &f.config.Config, query, to, func(ctx context.Context, c *client.Client, options container.LogsOptions) (io.ReadCloser, error) {
			return c.TaskLogs(ctx, id, options)
		})
	})
	return err
}
