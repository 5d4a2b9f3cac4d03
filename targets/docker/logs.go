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

// OpenLogs is [client.Client.ContainerLogs] or [client.Client.TaskLogs].
type OpenLogs func(c *client.Client, ctx context.Context, id string, options container.LogsOptions) (io.ReadCloser, error)

// WriteLogs writes the output of a container or task. It uses its own connection, because it can
// last longer than other calls and the connections of an engine are limited.
func WriteLogs(ctx context.Context, config *Config, open OpenLogs, id string, query targets.LogQuery, to io.Writer) error {
	e, err := Connect(config, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	c, err := e.Client(ctx)
	if err != nil {
		return err
	}
	output, err := open(c, ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(query.Lines), Follow: query.Follow})
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
	return e.Error(err)
}
