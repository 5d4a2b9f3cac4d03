package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/test/internal/gobuild"
)

// buildHpad builds hpad from this tree.
func buildHpad(ctx context.Context) (path string, clean func(), err error) {
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "hpad")
	if err := gobuild.Build(ctx, path, "github.com/hpad/hpad/cmd/hpad"); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return path, func() { _ = os.RemoveAll(dir) }, nil
}

// hpad is a running daemon whose files are in one directory.
type hpad struct {
	*process
	*socket
	program, dir string
}

// startHpad runs a binary with the configuration in the given directory.
func startHpad(program, dir string) (*hpad, error) {
	p, err := start(filepath.Join(dir, "log"), program, "run", "--config", filepath.Join(dir, "hpad.toml"))
	if err != nil {
		return nil, err
	}
	return &hpad{process: p, program: program, dir: dir, socket: newSocket(filepath.Join(dir, "sock"))}, nil
}

// socket is an HTTP client that connects to hpad's socket.
type socket struct{ http.Client }

func newSocket(path string) *socket {
	return &socket{http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}}
}

// scrape copies all metrics, or the metrics with the given names, and returns their size.
func (s *socket) scrape(ctx context.Context, to io.Writer, names ...string) (int64, error) {
	address := "http://hpad/metrics?" + url.Values{"name[]": names}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := s.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.Copy(to, response.Body)
}

const (
	passesMetric = "hpad_reconciliations_total"
	lateMetric   = "hpad_autoscaler_late_passes_total"
)

// counts returns the numbers of passes, read from the metrics with the given names.
func (s *socket) counts(ctx context.Context, names ...string) (c counts, err error) {
	var text strings.Builder
	_, err = s.scrape(ctx, &text, names...)
	for line := range strings.Lines(text.String()) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), "} ")
		value, _ := strconv.ParseFloat(number, 64)
		switch {
		case strings.HasPrefix(name, lateMetric+"{"):
			c.late += value
		case strings.HasPrefix(name, passesMetric+"{"):
			c.passes += value
			if !strings.Contains(name, `error="none"`) {
				c.failed += value
			}
		}
	}
	return c, err
}

// count returns the numbers of all, failed and late passes.
func (s *socket) count(ctx context.Context) (counts, error) {
	return s.counts(ctx, passesMetric, lateMetric)
}

// measureRequests measures operators' requests to a running daemon, and "hpad check".
func (h *hpad) measureRequests(ctx context.Context, m *result) error {
	begun := betweenTicks(ctx, m.row.period)
	size, err := h.scrape(ctx, io.Discard)
	if err != nil {
		return err
	}
	m.scrape, m.scraped = time.Since(begun), size
	begun = betweenTicks(ctx, m.row.period)
	if _, err := runOnce(ctx, h.program, "get", "--socket", filepath.Join(h.dir, "sock")); err != nil {
		return err
	}
	m.get = time.Since(begun)
	begun = time.Now()
	if m.checkCPU, err = runOnce(ctx, h.program, "check", filepath.Join(h.dir, "hpad.toml")); err != nil {
		return err
	}
	m.check = time.Since(begun)
	return nil
}

// betweenTicks waits until the middle of a period, when no round is about to start, and returns
// that time.
func betweenTicks(ctx context.Context, period time.Duration) time.Time {
	toTick(ctx, period)
	pause(ctx, period/2)
	return time.Now()
}

// runOnce runs a command and returns its CPU time.
func runOnce(ctx context.Context, program string, args ...string) (time.Duration, error) {
	command := exec.CommandContext(ctx, program, args...)
	output, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w\n%s", program, args[0], err, output[max(0, len(output)-2000):])
	}
	return command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}

// restart starts hpad with existing state just after a tick, when all autoscalers are due. It
// measures the time until the first autoscaler has a decision, and until all autoscalers have one.
func restart(ctx context.Context, program, dir string, m *result) error {
	toTick(ctx, m.row.period)
	pause(ctx, m.row.period/10)
	begun := time.Now()
	h, err := startHpad(program, dir)
	if err != nil {
		return err
	}
	for m.restartAll == 0 && ctx.Err() == nil && time.Since(begun) < patience {
		pause(ctx, 20*time.Millisecond)
		c, err := h.counts(ctx, passesMetric)
		if err != nil {
			continue // the daemon is not listening yet
		}
		if m.restartFirst == 0 && c.passes > 0 {
			m.restartFirst = time.Since(begun)
		}
		if c.passes >= float64(m.row.n) {
			m.restartAll = time.Since(begun)
		}
	}
	return h.end()
}

func (h *hpad) end() error {
	h.CloseIdleConnections()
	return h.stop()
}

// measureHpad measures a binary with a new world.
func measureHpad(ctx context.Context, program string, r row) (*result, error) {
	s, err := startEnvironment(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.end()
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := s.configure(dir, r); err != nil {
		return nil, err
	}
	m := &result{program: program, row: r}
	h, err := startHpad(program, dir)
	if err != nil {
		return nil, err
	}
	if err = measure(ctx, h, s, m); err == nil && r.extra {
		err = h.measureRequests(ctx, m)
	}
	if ended := h.end(); err == nil {
		err = ended
	}
	if err == nil && r.extra {
		err = restart(ctx, program, dir, m)
	}
	return m, err
}
