package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// exportTimeout is how long an export may take: with a full history it is some hundred
// megabytes.
const exportTimeout = 5 * time.Minute

// exportState writes the state for an import. An error in the middle ends the answer
// without its last line, and without that no import takes it.
func (h handlers) exportState(w http.ResponseWriter, r *http.Request) {
	history := true
	if text := r.URL.Query().Get("history"); text != "" {
		var err error
		if history, err = strconv.ParseBool(text); err != nil {
			writeError(w, http.StatusBadRequest, ErrorBadData, "history = "+strconv.Quote(text)+": must be true or false")
			return
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout)) // a writer without needs none moved
	w.Header().Set("Content-Type", "application/jsonl")
	written := &countingWriter{Writer: w}
	if err := h.daemon.ExportState(r.Context(), written, history); err != nil {
		if written.size > 0 {
			panic(http.ErrAbortHandler)
		}
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
	}
}

// ExportState writes the state of the daemon, and with history that of decisions, as
// "hpad state import" reads it.
func (c *Client) ExportState(ctx context.Context, to io.Writer, history bool) error {
	return c.fetch(ctx, "/api/v1/state?history="+strconv.FormatBool(history), exportTimeout, to)
}

// countingWriter counts the bytes that were written.
type countingWriter struct {
	io.Writer
	size int
}

func (c *countingWriter) Write(part []byte) (int, error) {
	n, err := c.Writer.Write(part)
	c.size += n
	return n, err
}
