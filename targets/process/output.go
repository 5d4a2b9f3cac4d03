package process

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxLine is the length at which a line of output is split.
const maxLine = 64 << 10

// lines writes whole lines, each with one call of Write. It ignores errors of the writer,
// because they must not stop a process.
type lines struct {
	mu   sync.Mutex
	to   io.Writer
	rest []byte
}

// newLines returns lines for a writer. If the writer is nil, lines are discarded.
func newLines(to io.Writer) *lines {
	if to == nil {
		to = io.Discard
	}
	return &lines{to: to}
}

func (l *lines) discards() bool { return l.to == io.Discard }

// Write writes complete lines and buffers an incomplete line.
func (l *lines) Write(piece []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, piece...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0:
			l.put(l.rest[:end+1])
			l.rest = l.rest[end+1:]
		case len(l.rest) >= maxLine:
			l.put(append(l.rest[:maxLine:maxLine], '\n'))
			l.rest = l.rest[maxLine:]
		default:
			l.rest = bytes.Clone(l.rest)
			return len(piece), nil
		}
	}
}

// printf writes a line from hpad itself. It first completes an incomplete line of the process.
func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish()
	l.put(fmt.Appendf(nil, "hpad: "+format+"\n", args...))
}

// close writes an incomplete line.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish()
}

func (l *lines) finish() {
	if len(l.rest) > 0 {
		l.put(append(l.rest, '\n'))
		l.rest = nil
	}
}

func (l *lines) put(line []byte) { _, _ = l.to.Write(line) }
