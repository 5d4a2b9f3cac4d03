package docker

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/hpad/hpad/targets"
)

// WriteLogs writes the output of the container or task that open selects. It uses a connection of
// its own, because it may last longer than other calls, whose connections are limited.
func WriteLogs(ctx context.Context, config *Config, query targets.LogQuery, to io.Writer,
	open func(ctx context.Context, c *client.Client, options container.LogsOptions) (io.ReadCloser, error),
) error {
	e, err := Connect(config, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	c, err := e.Client(ctx)
	if err != nil {
		return err
	}
	output, err := open(ctx, c, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(query.Lines), Follow: query.Follow})
	if err != nil {
		return e.Error(err)
	}
	defer func() { _ = output.Close() }()
	// Without a terminal, each part of the output has a header: the stream and three zeros.
	buffered := bufio.NewReader(output)
	if header, _ := buffered.Peek(4); len(header) == 4 && bytes.Equal(header[1:], make([]byte, 3)) {
		_, err = stdcopy.StdCopy(to, to, buffered)
	} else {
		_, err = io.Copy(to, buffered)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return e.Error(err)
}
