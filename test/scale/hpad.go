package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hpad/hpad/test/scale/sim"
)

// buildHpad builds this tree's hpad.
func buildHpad(ctx context.Context) (path string, clean func(), err error) {
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "hpad")
	said, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/hpad/hpad/cmd/hpad").CombinedOutput()
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("build hpad: %w\n%s", err, said)
	}
	return path, func() { _ = os.RemoveAll(dir) }, nil
}

// surroundings are a world and where its servers listen.
type surroundings struct {
	*sim.World
	nomad, prometheus string
	open, most        atomic.Int64
	queries           atomic.Int64
	end               func()
}

// surround runs a world for a row.
func surround(ctx context.Context, r row) (*surroundings, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &surroundings{World: sim.New(sim.Options{Jobs: r.n, Single: r.single, Changes: r.changes, Period: r.period})}
	prometheus := s.Prometheus()
	counted := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		s.queries.Add(1)
		prometheus.ServeHTTP(w, request)
	})
	var servers []*http.Server
	s.end = func() {
		cancel()
		for _, server := range servers {
			_ = server.Close()
		}
	}
	listen := func(handler http.Handler) (string, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.most.Store(max(s.most.Load(), s.open.Add(1)))
			case http.StateClosed, http.StateHijacked:
				s.open.Add(-1)
			}
		}}
		servers = append(servers, server)
		go func() { _ = server.Serve(listener) }()
		return "http://" + listener.Addr().String(), nil
	}
	var err error
	if s.nomad, err = listen(s.Nomad()); err == nil {
		s.prometheus, err = listen(counted)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	go s.Run(ctx)
	return s, nil
}

// writeConfiguration writes hpad's, with all its files in a directory.
func writeConfiguration(dir string, s *surroundings, r row) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, `[daemon]
listen      = ""
socket      = %q
state_dir   = %q
sync_period = %q

[fleets.prod]
kind    = "nomad"
address = %q

[sources.prom]
kind = "prometheus"
url  = %q
`, filepath.Join(dir, "sock"), filepath.Join(dir, "state"), r.period, s.nomad, s.prometheus)
	for number := range r.n {
		id := sim.JobID(number)
		query, selected := sim.SharedQuery, fmt.Sprintf("select        = { service = %q }\n", id)
		if r.each {
			query, selected = sim.Load(number), ""
		}
		fmt.Fprintf(&text, `
[autoscalers.%s]
target       = { fleet = "prod", job = %q, group = "app" }
min_replicas = 1
max_replicas = 20

[[autoscalers.%s.metrics]]
type          = "External"
name          = "load"
source        = "prom"
query         = %s
%saverage_value = "%d"

[autoscalers.%s.behavior.scale_down]
stabilization_window = "0s"
`, id, id, id, "'"+query+"'", selected, sim.PerInstance, id)
	}
	return os.WriteFile(filepath.Join(dir, "hpad.toml"), text.Bytes(), 0o600)
}

// serveAlone runs the simulator, and writes a configuration of hpad for it.
func serveAlone(ctx context.Context, r row) error {
	s, err := surround(ctx, r)
	if err != nil {
		return err
	}
	defer s.end()
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeConfiguration(dir, s, r); err != nil {
		return err
	}
	fmt.Printf("nomad       %s\nprometheus  %s\nhpad run --config %s\n", s.nomad, s.prometheus, filepath.Join(dir, "hpad.toml"))
	<-ctx.Done()
	return nil
}

// result is what a row measured.
type result struct {
	program     string
	row         row
	evaluations float64
	cpu         time.Duration
	rss, peak   int64
	connections [2]int64
	reactions   []time.Duration
	waiting     int
	failed      float64
	late        float64
	extra       string
	load        string
}

func (r result) String() string {
	mode := "shared"
	if r.row.each {
		mode = "each"
	}
	slices.Sort(r.reactions)
	quantile := func(q float64) time.Duration {
		if len(r.reactions) == 0 {
			return 0
		}
		return r.reactions[int(q*float64(len(r.reactions)-1))].Round(10 * time.Millisecond)
	}
	return fmt.Sprintf("%s n=%d period=%s query=%s: %.4f cpu s per 1,000 evaluations (%.0f evaluations, %.1f %% of a core), rss %d MiB, peak %d MiB, connections %d (at most %d), "+
		"reaction p50 %s p99 %s max %s of %d (%d wait), failed %.0f, late %.0f%s; load %s",
		r.program, r.row.n, r.row.period, mode, r.cpu.Seconds()/r.evaluations*1000, r.evaluations, 100*r.cpu.Seconds()/(float64(r.row.periods)*r.row.period.Seconds()),
		r.rss>>20, r.peak>>20, r.connections[0], r.connections[1], quantile(.5), quantile(.99), quantile(1), len(r.reactions), r.waiting, r.failed, r.late, r.extra, r.load)
}

// daemon is an hpad that runs.
type daemon struct {
	program, dir string
	command      *exec.Cmd
	ended        chan struct{}
	client       *http.Client
}

func startHpad(program, dir string) (*daemon, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	d := &daemon{program: program, dir: dir, command: exec.Command(program, "run", "--config", filepath.Join(dir, "hpad.toml")), ended: make(chan struct{})}
	d.command.Stdout, d.command.Stderr = log, log
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = d.command.Wait()
		close(d.ended)
	}()
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "sock"))
	}}}
	return d, nil
}

// stop ends it, and returns what it said at last if that did not go well.
func (d *daemon) stop() error {
	_ = d.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		_ = d.command.Process.Kill()
		<-d.ended
	}
	d.client.CloseIdleConnections()
	if !d.command.ProcessState.Success() {
		said, _ := os.ReadFile(filepath.Join(d.dir, "log"))
		return fmt.Errorf("%s ended with %s\n%s", d.program, d.command.ProcessState, said[max(0, len(said)-4000):])
	}
	return nil
}

// scrape reads metrics of some names, or all.
func (d *daemon) scrape(ctx context.Context, names ...string) ([]byte, error) {
	address := "http://hpad/metrics?"
	for _, name := range names {
		address += "name[]=" + name + "&"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// counts are passes by how they ended.
type counts struct{ passes, failed, late float64 }

func (d *daemon) counts(ctx context.Context) (c counts, err error) {
	text, err := d.scrape(ctx, "hpad_reconciliations_total", "hpad_autoscaler_late_passes_total")
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), "} ")
		value, _ := strconv.ParseFloat(number, 64)
		switch {
		case strings.HasPrefix(name, "hpad_autoscaler_late_passes_total{"):
			c.late += value
		case strings.HasPrefix(name, "hpad_reconciliations_total{"):
			c.passes += value
			if !strings.Contains(name, `error="none"`) {
				c.failed += value
			}
		}
	}
	return c, err
}

// tick waits until shortly before a tick.
func tick(ctx context.Context, period time.Duration) {
	at := time.Now().Truncate(period).Add(period - period/20)
	if !at.After(time.Now()) {
		at = at.Add(period)
	}
	pause(ctx, time.Until(at))
}

func pause(ctx context.Context, wait time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// measureHpad runs a program over a new world.
func measureHpad(ctx context.Context, program string, r row) (*result, error) {
	s, err := surround(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.end()
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeConfiguration(dir, s, r); err != nil {
		return nil, err
	}
	measured := &result{program: program, row: r}
	d, err := startHpad(program, dir)
	if err != nil {
		return nil, err
	}
	err = d.measure(ctx, s, measured)
	if err == nil && r.extra {
		err = d.measureExtra(ctx, measured)
	}
	if stopped := d.stop(); err == nil {
		err = stopped
	}
	if err == nil && r.extra {
		err = measureRestart(ctx, program, dir, measured)
	}
	return measured, err
}

// measure lets some periods pass, and measures some.
func (d *daemon) measure(ctx context.Context, s *surroundings, m *result) error {
	var before counts
	for waited := 0; ; waited++ { // its start takes as long as it takes
		tick(ctx, m.row.period)
		select {
		case <-d.ended:
			return d.stop()
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		c, err := d.counts(ctx)
		if before = c; waited >= m.row.warm && err == nil && c.passes >= float64(m.row.n) || time.Duration(waited)*m.row.period > 10*time.Minute {
			break
		}
	}
	tick(ctx, m.row.period)
	before, err := d.counts(ctx)
	if err != nil {
		return err
	}
	s.Reactions()
	used, err := cpu(d.command.Process.Pid)
	if err != nil {
		return err
	}
	for range m.row.periods {
		tick(ctx, m.row.period)
	}
	after, err := cpu(d.command.Process.Pid)
	if err != nil {
		return err
	}
	m.cpu = after - used
	m.rss, m.peak = memory(d.command.Process.Pid)
	m.reactions, _, m.waiting = s.Reactions()
	m.connections = [2]int64{s.open.Load(), s.most.Load()}
	m.load = loadAverage()
	c, err := d.counts(ctx)
	m.evaluations, m.failed, m.late = c.passes-before.passes, c.failed-before.failed, c.late-before.late
	return err
}

// measureExtra measures what people ask of a running daemon.
func (d *daemon) measureExtra(ctx context.Context, m *result) error {
	begun := time.Now()
	text, err := d.scrape(ctx)
	if err != nil {
		return err
	}
	m.extra += fmt.Sprintf(", scrape %.2f s of %d MiB", time.Since(begun).Seconds(), len(text)>>20)
	for _, args := range [][]string{{"get", "--socket", filepath.Join(d.dir, "sock")}, {"check", filepath.Join(d.dir, "hpad.toml")}} {
		begun := time.Now()
		command := exec.CommandContext(ctx, d.program, args...)
		said, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, said[max(0, len(said)-2000):])
		}
		state := command.ProcessState
		m.extra += fmt.Sprintf(", %s %.2f s (%.2f cpu s)", args[0], time.Since(begun).Seconds(), (state.UserTime() + state.SystemTime()).Seconds())
	}
	return nil
}

// measureRestart starts a daemon again with the state it had, five seconds before a
// tick, and measures how long after the tick it has decided.
func measureRestart(ctx context.Context, program, dir string, m *result) error {
	const ahead = 5 * time.Second
	due := time.Now().Add(ahead).Truncate(m.row.period).Add(m.row.period)
	pause(ctx, time.Until(due.Add(-min(ahead, m.row.period/3))))
	d, err := startHpad(program, dir)
	if err != nil {
		return err
	}
	var first, all time.Duration
	for all == 0 && ctx.Err() == nil && time.Since(due) < 5*time.Minute {
		pause(ctx, 20*time.Millisecond)
		text, err := d.scrape(ctx, "hpad_reconciliations_total")
		if err != nil {
			continue
		}
		var c counts
		for line := range strings.Lines(string(text)) {
			if name, number, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(name, "hpad_reconciliations_total{") {
				value, _ := strconv.ParseFloat(number, 64)
				c.passes += value
			}
		}
		if first == 0 && c.passes > 0 {
			first = time.Since(due)
		}
		if c.passes >= float64(m.row.n) {
			all = time.Since(due)
		}
	}
	_, peak := memory(d.command.Process.Pid)
	m.extra += fmt.Sprintf(", restart: first decision %.2f s after the tick, all %.2f s, peak %d MiB", first.Seconds(), all.Seconds(), peak>>20)
	return d.stop()
}
