package exec

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

const (
	// maxLine is the length at which a line of the standard error is split, in bytes.
	maxLine = 1 << 10
	// maxLines is the maximum number of lines in a minute.
	maxLines = 100
)

// lineWriter passes the standard error of a program to hpad's log, line by line and with a limit. It
// never fails. It is safe for concurrent use.
type lineWriter struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte
	// minute is the start of the current minute. written and dropped count its lines.
	minute           time.Time
	written, dropped int
}

// Write passes the complete lines.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := len(p)
	for len(p) > 0 {
		part, _, found := bytes.Cut(p[:min(len(p), maxLine)], []byte("\n"))
		if p = p[len(part):]; found {
			p = p[1:]
		}
		w.rest = append(w.rest, part...)
		if found || len(w.rest) >= maxLine {
			w.lineLocked(string(w.rest))
			w.rest = w.rest[:0]
		}
	}
	return size, nil
}

// printf adds a line of hpad itself.
func (w *lineWriter) printf(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lineLocked(fmt.Sprintf(format, arguments...))
}

func (w *lineWriter) lineLocked(line string) {
	if now := time.Now(); now.Sub(w.minute) >= time.Minute {
		if w.dropped > 0 {
			_, _ = fmt.Fprintf(w.to, "hpad: %d lines were dropped; the limit is %d lines a minute\n", w.dropped, maxLines)
		}
		w.minute, w.written, w.dropped = now, 0, 0
	}
	if line = targets.Phrase(line); line == "" {
		return
	}
	if w.written++; w.written > maxLines {
		w.dropped++
		return
	}
	_, _ = io.WriteString(w.to, line+"\n")
}
