package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/targets"
)

const (
	// MaxLogLines is the maximum value of tail in a request for output.
	MaxLogLines = 10_000
	// DefaultLogLines is the value of tail in a request without it.
	DefaultLogLines = 100
	// maxLogLine is the length in bytes at which a line of output is split.
	maxLogLine = 64 << 10
	// followTimeout is the time limit for a request that follows the output.
	followTimeout = 365 * 24 * time.Hour
)

// logs writes the output of an instance as text, without secrets. An error after the first line
// aborts the response.
func (h handlers) logs(w http.ResponseWriter, r *http.Request) {
	given := r.URL.Query()
	query := targets.LogQuery{Lines: DefaultLogLines}
	var err error
	if query.Follow, err = boolParameter(r, "follow", false); err == nil && given.Has("tail") {
		if query.Lines, err = strconv.Atoi(given.Get("tail")); err != nil || query.Lines < 1 || query.Lines > MaxLogLines {
			err = fmt.Errorf("tail = %q: must be a whole number from 1 to %d", given.Get("tail"), MaxLogLines)
		}
	}
	if err == nil && given.Get("instance") == "" {
		err = errors.New("instance: must be the ID or the name of an instance")
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	out := &logWriter{w: w, to: redact.Writer(w)}
	err = h.daemon.WriteLogs(r.Context(), r.PathValue("name"), given.Get("instance"), query, out)
	rejected, is := errors.AsType[*Error](err)
	switch {
	case err == nil:
		out.end()
	case out.begun || r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case is:
		writeError(w, rejected.Status, rejected.Type, rejected.Message)
	default:
		writeActError(w, err)
	}
}

// logWriter writes each complete line without secrets, and flushes the response.
type logWriter struct {
	w     http.ResponseWriter
	to    io.Writer
	rest  []byte
	begun bool
}

func (l *logWriter) Write(part []byte) (int, error) {
	l.begin()
	l.rest = append(l.rest, part...)
	for {
		end := bytes.IndexByte(l.rest[:min(len(l.rest), maxLogLine)], '\n') + 1
		if end == 0 && len(l.rest) >= maxLogLine {
			end = maxLogLine
		}
		if end == 0 {
			break
		}
		if _, err := l.to.Write(l.rest[:end]); err != nil {
			return 0, err
		}
		l.rest = l.rest[end:]
	}
	l.rest = bytes.Clone(l.rest)
	return len(part), http.NewResponseController(l.w).Flush()
}

// begin allows the time limit of a response for the next part.
func (l *logWriter) begin() {
	_ = http.NewResponseController(l.w).SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only for writers without deadlines
	l.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	l.begun = true
}

// end writes an incomplete last line.
func (l *logWriter) end() {
	l.begin()
	if len(l.rest) > 0 {
		_, _ = l.to.Write(l.rest) // an error means that the client has disconnected
	}
}

// Logs calls take for each line of the output of an instance, including its line end. It returns
// the error of take. The instance is its ID or its name. With targets.LogQuery.Follow, it returns
// when the instance or ctx ends.
func (c *Client) Logs(ctx context.Context, name, instance string, query targets.LogQuery, take func(line []byte) error) error {
	given := url.Values{"instance": {instance}, "tail": {strconv.Itoa(query.Lines)}, "follow": {strconv.FormatBool(query.Follow)}}
	timeout := responseTimeout
	if query.Follow {
		timeout = followTimeout
	}
	return c.send(ctx, http.MethodGet, pathOfAutoscaler(name)+"/logs?"+given.Encode(), nil, timeout, func(r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			_, _, err := decodeResponse[struct{}](c, r)
			return err
		}
		for from := bufio.NewReader(r.Body); ; {
			line, err := from.ReadBytes('\n')
			if len(line) > 0 {
				if err := take(line); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read the output of %q: %w", instance, err)
			}
		}
	})
}
