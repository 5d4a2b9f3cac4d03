package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
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
)

// LogQuery contains the parameters of the output of an instance.
type LogQuery struct {
	// Instance is the ID or the name of an instance. It is optional if there is only one.
	Instance string `toml:"instance"`
	// Tail is the maximum number of last lines.
	Tail int `toml:"tail" min:"1" max:"10000" default:"100"`
	// Follow continues the response with new output, also after a restart of the instance, until the
	// instance ends for good or the client disconnects.
	Follow bool `toml:"follow"`
	// Previous selects the output before the current start of the instance. It excludes follow.
	Previous bool `toml:"previous"`
}

// logs writes the output of an instance as text. An error after the first part of the output aborts
// the response.
func (h handlers) logs(w http.ResponseWriter, r *http.Request, in LogQuery) {
	query := targets.LogQuery{Lines: in.Tail, Follow: in.Follow, Previous: in.Previous}
	if in.Follow && in.Previous {
		writeError(w, ErrorBadData, "follow and previous are mutually exclusive")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	if query.Follow {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a quiet instance can be followed for hours
	} else {
		ctx, cancel = context.WithTimeout(r.Context(), writeTimeout)
	}
	defer cancel()
	out := &logWriter{response: w, endless: query.Follow}
	err := h.daemon.WriteLogs(ctx, r.PathValue("name"), in.Instance, query, out)
	if err == nil {
		err = out.end()
	}
	switch {
	case err != nil && out.begun:
		panic(http.ErrAbortHandler)
	case err != nil:
		writeFailure(w, err)
	}
}

// logWriter writes each complete line without secrets, and flushes the response.
type logWriter struct {
	response http.ResponseWriter
	line     []byte
	begun    bool
	// endless is set if the time limit of the server does not apply to the whole response.
	endless bool
}

func (l *logWriter) Write(part []byte) (int, error) {
	for _, letter := range part {
		if l.line = append(l.line, letter); letter == '\n' || len(l.line) == maxLogLine {
			if err := l.end(); err != nil {
				return 0, err
			}
		}
	}
	return len(part), nil
}

// end writes and flushes the buffered line, if there is one.
func (l *logWriter) end() error {
	l.response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(l.line) == 0 {
		return nil
	}
	l.begun = true
	response := http.NewResponseController(l.response)
	if l.endless {
		_ = response.SetWriteDeadline(time.Now().Add(writeTimeout))   // unsupported in tests
		defer func() { _ = response.SetWriteDeadline(time.Time{}) }() // HTTP/2 ends a stream at its deadline, even between writes
	}
	_, err := redact.Writer(l.response).Write(l.line)
	l.line = l.line[:0]
	if err == nil {
		err = response.Flush()
	}
	return err
}

// Logs calls take for each line of the output of an instance, without its line end, and returns the
// error of take. The instance is an ID, a name, or empty for the only instance.
func (c *Client) Logs(ctx context.Context, name, instance string, query targets.LogQuery, take func(line string) error) error {
	path := Path("autoscalers", name, "logs") + encodeQuery(LogQuery{instance, query.Lines, query.Follow, query.Previous})
	timeout := readResponseTimeout
	if query.Follow {
		timeout = 365 * 24 * time.Hour
	}
	return c.send(ctx, http.MethodGet, path, nil, timeout, func(r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			_, _, err := decodeResponse[struct{}](c, r)
			return err
		}
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(nil, 2*maxLogLine) // replacements of secrets can be longer than the secrets
		for lines.Scan() {
			if err := take(lines.Text()); err != nil {
				return err
			}
		}
		if errors.Is(lines.Err(), io.ErrUnexpectedEOF) {
			return errors.New("the output is incomplete: hpad stopped, or it could not read the rest")
		}
		return lines.Err()
	})
}
