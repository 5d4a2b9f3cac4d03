package main

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hpad/hpad/guard"
)

const (
	// logLines limits the lines that wait for a log that accepts none.
	logLines = 1000
	// logPatience is the time that a line waits until it is written. If a line takes longer, later
	// lines do not wait until the log accepts lines again.
	logPatience = time.Second
)

// logQueue writes log lines in order, each with one call of Write. If the writer blocks, for example
// because the reader of a pipe has stopped, Write returns anyway, so that the log never delays the
// daemon. Lines that exceed logLines are dropped and counted. A logQueue is safe for concurrent use.
type logQueue struct {
	to      io.Writer
	encoder zapcore.Encoder
	lines   chan logLine
	blocked atomic.Bool
	dropped atomic.Int64
}

// logLine is a line with a channel that is closed when it has been written.
type logLine struct {
	text    []byte
	written chan struct{}
}

// newLogQueue returns a queue that writes until the process ends. It reports dropped lines in the
// format of the encoder.
func newLogQueue(to io.Writer, encoder zapcore.Encoder) *logQueue {
	q := &logQueue{to: to, encoder: encoder, lines: make(chan logLine, logLines)}
	guard.Go(q.run)
	return q
}

func (q *logQueue) run() {
	for line := range q.lines {
		if dropped := q.dropped.Swap(0); dropped > 0 {
			q.report(dropped)
		}
		_, _ = q.to.Write(line.text)
		close(line.written)
		if len(q.lines) == 0 {
			q.blocked.Store(false)
		}
	}
}

// report writes a line with the number of dropped lines.
func (q *logQueue) report(dropped int64) {
	entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), Message: "log was blocked, lines are missing"}
	line, err := q.encoder.EncodeEntry(entry, []zapcore.Field{zap.Int64("lines", dropped)})
	if err != nil {
		return // no field can cause an error
	}
	_, _ = q.to.Write(line.Bytes())
	line.Free()
}

// Write queues a line of the daemon. It never fails.
func (q *logQueue) Write(text []byte) (int, error) {
	line := logLine{bytes.Clone(text), make(chan struct{})}
	select {
	case q.lines <- line:
	default:
		q.dropped.Add(1)
		return len(text), nil
	}
	if q.blocked.Load() {
		return len(text), nil
	}
	timer := time.NewTimer(logPatience)
	defer timer.Stop()
	select {
	case <-line.written:
	case <-timer.C:
		q.blocked.Store(true)
	}
	return len(text), nil
}

// Sync waits until the lines are written, but not longer than logPatience.
func (q *logQueue) Sync() error {
	q.blocked.Store(false)
	_, err := q.Write(nil)
	return err
}

// patient is a writer for the output of workers. It waits as long as the log is blocked, so that
// output does not displace lines of the daemon.
type patient struct{ q *logQueue }

func (p patient) Write(text []byte) (int, error) {
	line := logLine{bytes.Clone(text), make(chan struct{})}
	p.q.lines <- line
	<-line.written
	return len(text), nil
}

func (p patient) Sync() error { return nil }
