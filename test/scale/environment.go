package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/test/scale/sim"
)

// environment is a simulated world with its servers.
type environment struct {
	*sim.World
	nomad, prometheus string
	// adapter is the address of the adapter over HTTP.
	adapter string
	// open is the number of open connections to both servers. queries is the number of queries to
	// Prometheus.
	open, queries atomic.Int64
	end           func()
}

// startEnvironment starts a world for a row.
func startEnvironment(ctx context.Context, r row) (*environment, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &environment{World: sim.New(sim.Options{Jobs: r.n, Single: r.single, Changes: r.changes, Period: r.period})}
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
		server := &http.Server{Handler: delayed(handler, r.latency), ReadHeaderTimeout: time.Minute, ConnState: s.count}
		servers = append(servers, server)
		go func() { _ = server.Serve(listener) }()
		return "http://" + listener.Addr().String(), nil
	}
	prometheus := s.Prometheus()
	var err error
	if s.adapter, err = listen(s.Adapter()); err == nil {
		s.nomad, err = listen(s.Nomad())
	}
	if err == nil {
		s.prometheus, err = listen(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			s.queries.Add(1)
			prometheus.ServeHTTP(w, request)
		}))
	}
	if err != nil {
		s.end()
		return nil, err
	}
	go s.Run(ctx)
	return s, nil
}

// delayed delays each response, like the network between two hosts.
func delayed(handler http.Handler, latency time.Duration) http.Handler {
	if latency == 0 {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		pause(request.Context(), latency)
		handler.ServeHTTP(w, request)
	})
}

func (s *environment) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// configure writes hpad's configuration to dir, which also contains all other files of hpad.
func (s *environment) configure(dir string, r row) error {
	syncs := ""
	if r.syncs > 0 {
		syncs = fmt.Sprintf("concurrent_syncs = %d\n", r.syncs)
	}
	text := fmt.Sprintf("[daemon]\nlisten      = \"\"\nsocket      = %q\nstate_dir   = %q\nsync_period = %q\n%s%s",
		filepath.Join(dir, "sock"), filepath.Join(dir, "state"), r.period, syncs, s.autoscalers(r, "prod", ""))
	return os.WriteFile(filepath.Join(dir, "hpad.toml"), []byte(text), 0o600)
}

// platform returns the keys of the fleet.
func (s *environment) platform(r row) string {
	if r.exec {
		program, _ := os.Executable() // Linux always returns it
		return fmt.Sprintf("kind    = \"exec\"\ncommand = [%q, %q, %q]", program, adapterArgument, s.adapter)
	}
	return fmt.Sprintf("kind    = \"nomad\"\naddress = %q", s.nomad)
}

// source returns the keys of the source.
func (s *environment) source(r row) string {
	if r.document {
		return fmt.Sprintf("kind     = \"http\"\nurl      = %q\nmax_size = \"16Mi\"", s.prometheus+"/loads")
	}
	return fmt.Sprintf("kind = \"prometheus\"\nurl  = %q", s.prometheus)
}

// autoscalers returns the configuration of a fleet with one autoscaler for each job, without the
// [daemon] table. The autoscalers' names contain prefix.
func (s *environment) autoscalers(r row, fleet, prefix string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
[fleets.%[1]s]
%[2]s

[sources.%[1]s]
%[3]s
`, fleet, s.platform(r), s.source(r))
	key := `job = "%[1]s", group = "app"`
	if r.exec {
		key = `name = "%[1]s"`
	}
	for number := range r.n {
		id := sim.JobID(number)
		query, choice := sim.SharedQuery, fmt.Sprintf("\nselect        = { service = %q }", id)
		switch {
		case r.each:
			query, choice = sim.Load(number), ""
		case r.document:
			query = sim.DocumentQuery
		}
		fmt.Fprintf(&text, `
[autoscalers.%[6]s%[1]s]
target       = { fleet = %[5]q, `+key+` }
min_replicas = 1
max_replicas = 20

[[autoscalers.%[6]s%[1]s.metrics]]
type          = "External"
name          = "load"
source        = %[5]q
query         = '%[2]s'%[3]s
average_value = "%[4]d"

[autoscalers.%[6]s%[1]s.behavior.scale_down]
stabilization_window = "0s"
`, id, query, choice, sim.PerInstance, fleet, prefix)
	}
	return text.String()
}
