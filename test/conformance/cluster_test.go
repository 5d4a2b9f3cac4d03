package conformance

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// member is one member of a cluster. The members share an in-memory store.
type member struct {
	*side
	store      *clustertest.Memory
	name       string
	runs       int
	connection *clustertest.Connection
	cluster    *cluster.Cluster
	// stop is nil while the member is not running.
	stop     context.CancelFunc
	ended    chan error
	ownStore state.Store
}

func playCluster(s *side) {
	s.configure()
	store := clustertest.NewMemory(s.scenario.Seed)
	var members []*member
	for i := range s.scenario.Members {
		m := &member{side: s, store: store, name: fmt.Sprintf("m%d", i)}
		members = append(members, m)
		m.start()
	}
	var actions []action
	for _, a := range s.scenario.Acts {
		m := members[a.N%len(members)]
		actions = append(actions, action{a.At, func() { m.end(a.Kind == "crash") }}, action{a.Until, m.start})
	}
	s.perform(actions)
	for _, m := range members {
		m.end(false)
	}
	time.Sleep(time.Minute) // waits until all calls to the store have ended
}

func (m *member) start() {
	if m.stop != nil {
		return
	}
	m.runs++
	log := logger().Named(m.name)
	// Every other run starts with an empty disk, as on a different host.
	dir := filepath.Join(m.dir, fmt.Sprintf("%s-%d", m.name, m.runs/2))
	own, err := state.Open(filepath.Join(dir, "own"), state.Options{Log: log})
	if err != nil {
		m.problem("%v", err)
		return
	}
	m.ownStore, m.connection = own, m.store.Connect()
	booted := m.world.Start.Add(-time.Hour * time.Duration(1+m.runs/2))
	m.cluster = cluster.New(cluster.Options{
		Load:        func(ctx context.Context) (*config.Config, error) { return config.Load(ctx, m.file()) },
		Coordinator: m.connection, Member: cluster.Member{Name: m.name}, TTL: 15 * time.Second,
		Daemon: daemon.Options{
			Store: own, Log: log,
			Clock:   clock.System{Wall: m.wall, Boot: func() (string, time.Duration) { return dir, time.Since(booted) }},
			Decided: m.evaluated,
		},
		Dir: filepath.Join(dir, "fleets"),
	})
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.ended = cancel, make(chan error, 1)
	running, ended := m.cluster, m.ended
	go func() { ended <- running.Run(ctx) }()
}

func (m *member) end(crash bool) {
	if m.stop == nil {
		return
	}
	if crash {
		m.connection.Cut(true, true)
	}
	m.stop()
	m.stop = nil
	if err := <-m.ended; err != nil && !crash {
		m.problem("%s ended with %v", m.name, err)
	}
	_ = m.ownStore.Close()
}

func (m *member) evaluated(name string) {
	d := m.cluster.Daemon(m.cluster.FleetOf(name)) // not the API, which omits the fleets of a member that is stopping
	if d == nil {
		m.problem("%s evaluated %s, whose fleet it does not run", m.name, name)
		return
	}
	pass, ok := d.LastPass(name)
	if !ok {
		m.problem("%s evaluated %s, which is not configured", m.name, name)
		return
	}
	l := m.line(name, m.world.Since(pass.Record.Through), &pass)
	l.Said = append(l.Said, m.name)
	if len(l.Wrote) > 0 {
		l.Late = m.world.Targets[name].WroteAt() - l.T
	}
	m.add(l)
}
