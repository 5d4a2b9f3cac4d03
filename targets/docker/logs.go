package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// openLogs is [client.Client.ContainerLogs] or [client.Client.TaskLogs].
type openLogs func(c *client.Client, ctx context.Context, id string, options container.LogsOptions) (io.ReadCloser, error)

// awaitStart waits until a container that has ended runs again. It returns false if the container
// is not expected to run again.
type awaitStart func(ctx context.Context, id string) (bool, error)

// WriteLogs writes the output of a container or task. It uses its own connection, because it can
// last longer than other calls and the connections of an engine are limited. If query.Follow is set,
// it continues after each restart for which await waits. await may be nil.
func WriteLogs(ctx context.Context, config *Config, open openLogs, await awaitStart, id string, query targets.LogQuery, to io.Writer) error {
	e, err := Connect(config, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	c, err := e.Client(ctx)
	if err != nil {
		return err
	}
	options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(query.Lines), Follow: query.Follow}
	if !query.Follow || await == nil {
		return e.Error(writeOnce(ctx, c, open, id, options, to))
	}
	options.Timestamps = true
	stripped := &stampedWriter{to: to}
	for {
		if err := writeOnce(ctx, c, open, id, options, stripped); err != nil {
			return e.Error(err)
		}
		if again, err := await(ctx, id); !again {
			return err
		}
		options.Tail = "all"
		if !stripped.last.IsZero() {
			options.Since = stripped.last.Add(time.Nanosecond).Format(time.RFC3339Nano)
		}
	}
}

// writeOnce writes the output until the engine ends the response. Each Write to the writer begins
// at the start of a message, or continues a long line of a terminal.
func writeOnce(ctx context.Context, c *client.Client, open openLogs, id string, options container.LogsOptions, to io.Writer) error {
	output, err := open(c, ctx, id, options)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	// Without a terminal, each message has a header: the stream and three zeros.
	buffered := bufio.NewReader(output)
	if header, _ := buffered.Peek(4); len(header) == 4 && bytes.Equal(header[1:], make([]byte, 3)) {
		return writeMessages(buffered, to)
	}
	for err == nil || errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = buffered.ReadSlice('\n')
		if _, failed := to.Write(part); failed != nil {
			return failed
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// messagePart limits the memory for one message. The engine splits lines at 16 KiB, but the output of
// a terminal that looks like a header can announce a message of 4 GiB.
const messagePart = 64 << 10

// engineError is the stream of a message with an error of the engine.
const engineError = 3

// writeMessages writes messages without their headers. Each header has the stream, three zeros and
// the size of the message.
func writeMessages(from io.Reader, to io.Writer) error {
	var header [8]byte
	buffer := make([]byte, messagePart)
	for {
		_, err := io.ReadFull(from, header[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		size := int64(binary.BigEndian.Uint32(header[4:]))
		part := buffer[:min(size, messagePart)]
		if err == nil {
			_, err = io.ReadFull(from, part)
		}
		if err == nil && header[0] == engineError {
			return fmt.Errorf("the engine reports: %s", part)
		}
		if err == nil {
			_, err = to.Write(part)
		}
		if err == nil {
			_, err = io.CopyN(to, from, size-int64(len(part)))
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

// stampedWriter removes the engine's timestamp from the start of each message.
type stampedWriter struct {
	to io.Writer
	// last is the timestamp of the last message.
	last time.Time
}

func (w *stampedWriter) Write(message []byte) (int, error) {
	text := message
	if stamp, rest, found := bytes.Cut(message, []byte(" ")); found {
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			w.last, text = at, rest
		}
	}
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(message), nil
}
