package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// stalled is a log that accepts no lines until it is opened.
type stalled struct {
	opened chan struct{}
	mu     sync.Mutex
	text   strings.Builder
}

func (s *stalled) Write(text []byte) (int, error) {
	<-s.opened
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *stalled) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestBlockedLog checks that a log which accepts no lines delays the daemon once, that later lines
// are written in order, and that the number of dropped lines is logged in the format of the log.
func TestBlockedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &stalled{opened: make(chan struct{})}
		q := newLogQueue(log, zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()))
		defer close(q.lines)
		worker := make(chan struct{})
		go func() {
			defer close(worker)
			for n := range 3 {
				_, _ = fmt.Fprintf(patient{q}, "worker %d\n", n)
			}
		}()
		synctest.Wait()
		for n := range logLines + 500 { // returns, although the worker waits
			_, _ = fmt.Fprintf(q, "line %d\n", n)
		}
		close(log.opened)
		<-worker
		_ = q.Sync()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		last := -1
		for _, line := range lines {
			var n int
			if _, err := fmt.Sscanf(line, "line %d", &n); err == nil {
				if n <= last {
					t.Errorf("line %d follows line %d", n, last)
				}
				last = n
			}
		}
		if last != logLines-1 || len(lines) != logLines+3+1 || !strings.Contains(log.String(), `"msg":"log was blocked, lines are missing","lines":500}`+"\n") {
			t.Errorf("%d lines, the last one is line %d:\n%.300s", len(lines), last, log)
		}
		_, _ = fmt.Fprintln(q, "written at once")
		if !strings.HasSuffix(log.String(), "written at once\n") {
			t.Errorf("the log ends with %q after it was opened", lines[len(lines)-1])
		}
	})
}
