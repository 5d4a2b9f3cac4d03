package conformance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/test/conformance/sim"
)

// single is one daemon without a cluster. It reads its configuration from a file and stores its
// state on disk.
type single struct {
	*side
	// booted is the time of the last boot of the host.
	booted time.Time
	// runs is the number of completed runs. It is also part of the name of the next run's state
	// directory.
	runs int
	// current is nil while the daemon is not running.
	current *run
}

// run is one run of the daemon.
type run struct {
	*process
	daemon *daemon.Daemon
	store  state.Store
	state  string
	cancel context.CancelFunc
	ended  chan error
	// stored and reported map autoscalers to the times of their last evaluations: the last in the
	// store, and the last that the daemon reported.
	stored, reported map[string]time.Time
	// kill determines the commit at which the daemon is killed. It may be nil.
	kill atomic.Pointer[killAt]
}

// killAt kills the daemon before or after its n-th commit. n counts down to 1.
type killAt struct {
	n     int
	after bool
}

func playDaemon(s *side) {
	d := &single{side: s, booted: time.Now().Add(-24 * time.Hour)}
	d.configure()
	d.start()
	var actions []action
	for _, step := range d.scenario.Timeline() {
		actions = append(actions, action{step.At, func() { d.edit(&step) }})
	}
	for _, a := range d.scenario.Acts {
		actions = append(actions, action{a.At, func() { d.act(a) }})
		if a.Kind == "down" || a.Kind == "dead" {
			actions = append(actions, action{a.Until, d.start})
		}
	}
	d.perform(actions)
	d.stop()
}

func sortActions(actions []action) {
	sort.SliceStable(actions, func(i, j int) bool { return actions[i].at < actions[j].at })
}

func (d *single) edit(step *sim.Step) {
	switch {
	case step.Kind == "settings":
		d.config = *step.Config
		d.configure()
		d.reload()
	case step.Kind != "poke":
		d.configure()
		d.reload()
	case d.current != nil:
		// EvaluateNow would delay the next step by up to 20 ms because it polls.
		d.current.daemon.Evaluate(d.nameOf(step.Autoscaler))
	}
}

func (d *single) nameOf(name string) string {
	if !d.scenario.Labels {
		return name
	}
	i := slices.IndexFunc(d.scenario.Autoscalers, func(a sim.Autoscaler) bool { return a.Name == name })
	return fmt.Sprintf("f%d/%s", d.scenario.FleetOf(i), name)
}

func (d *single) act(a sim.Act) {
	switch a.Kind {
	case "restart":
		d.stop()
		d.start()
	case "kill":
		d.kill()
		d.start()
	case "down":
		d.stop()
	case "dead":
		d.kill()
	case "reload":
		d.reload()
	case "refit":
		d.nonce++
		d.configure()
		d.reload()
	case "reboot":
		d.kill()
		d.booted = time.Now().Add(-time.Minute)
		d.start()
	case "settings", "full": // handled by edit and killStore
	case "killmid":
		if d.current != nil {
			d.current.kill.Store(&killAt{n: a.N, after: a.How == "after"})
		}
	case "step":
		d.step += a.By.D()
	case "look":
		d.look()
	default:
		panic("act " + a.Kind)
	}
}

func (d *single) look() {
	if d.current == nil {
		return
	}
	running := d.current.daemon
	for _, name := range d.world.Names {
		name = d.nameOf(name)
		if _, err := running.InstancesOf(d.t.Context(), name); err != nil && !errors.Is(err, api.ErrUnknown) {
			d.problem("look: %v", err)
		}
		running.Autoscaler(name)
		if _, err := running.History(d.t.Context(), name, time.Time{}, time.Time{}, 10); err != nil {
			d.problem("look: %v", err)
		}
	}
	running.Health()
	running.Readiness()
}

func (d *single) stateDir() string { return filepath.Join(d.dir, fmt.Sprintf("state-%d", d.runs)) }

func (d *single) start() {
	log, dir := logger(), d.stateDir()
	store, err := state.Open(dir, state.Options{Log: log})
	if err != nil {
		d.problem("open the state: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	r := &run{
		process: &process{open: map[string]time.Time{}, written: map[string]time.Time{}},
		store:   store, state: dir, cancel: cancel, ended: make(chan error, 1),
		stored: map[string]time.Time{}, reported: map[string]time.Time{},
	}
	r.daemon = daemon.New(daemon.Options{
		Load:    func(ctx context.Context) (*config.Config, error) { return config.Load(ctx, d.file()) },
		Store:   killStore{store, d, r},
		Graph:   graph.New(filepath.Join(dir, "graph.db"), log, nil),
		Log:     log,
		Clock:   clock.System{Wall: d.wall, Boot: d.monotonic},
		Decided: func(name string) { d.evaluated(r, name) },
	})
	d.current, d.process = r, r.process
	go func() { r.ended <- r.daemon.Run(ctx) }()
	synctest.Wait()
	select {
	case err := <-r.ended:
		d.problem("the daemon did not start: %v", err)
		r.ended <- err
		d.discard(r) // calls of a daemon that did not start would block
	default:
	}
}

func (d *single) monotonic() (string, time.Duration) { return d.booted.String(), time.Since(d.booted) }

func (d *single) stop() {
	r := d.current
	if r == nil {
		return
	}
	d.current = nil
	r.cancel()
	if err := <-r.ended; err != nil && !strings.Contains(err.Error(), "no space left on device") {
		d.problem("the daemon ended with %v", err)
	}
	if err := r.store.Close(); err != nil {
		d.problem("close the state: %v", err)
	}
	d.runs++
	if err := os.Rename(r.state, d.stateDir()); err != nil {
		d.problem("%v", err)
	}
}

// kill ends the daemon as SIGKILL would: the next run uses the files as they are now.
func (d *single) kill() {
	r := d.current
	if r == nil {
		return
	}
	d.mu.Lock()
	r.dead = true
	d.mu.Unlock()
	d.copyState(r)
	d.discard(r)
}

func (d *single) copyState(r *run) {
	d.runs++
	if err := os.MkdirAll(d.stateDir(), 0o750); err != nil {
		d.problem("%v", err)
	}
	err := filepath.WalkDir(r.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(d.stateDir(), filepath.Base(path)), text, 0o640)
	})
	if err != nil {
		d.problem("%v", err)
	}
}

func (d *single) discard(r *run) {
	d.current = nil
	r.cancel()
	<-r.ended
	_ = r.store.Close()
}

func (d *single) reload() {
	if d.current == nil {
		return
	}
	if _, err := d.current.daemon.Reload(d.t.Context()); err != nil {
		d.problem("reload: %v", err)
	}
}

func (d *single) evaluated(r *run, name string) {
	pass, ok := r.daemon.LastPass(name)
	if !ok {
		d.problem("%s was evaluated and is not configured", name)
		return
	}
	name = name[strings.Index(name, "/")+1:] // the name of a discovered autoscaler begins with its fleet
	record := &pass.Record
	at := d.world.Since(record.Through)
	if now := d.now(); now != at && !d.scenario.Slow && !slices.Contains(d.scenario.Relax, "times") {
		d.problem("an evaluation of %s at %s ended at %s", name, at, now)
	}
	l := d.line(name, at, &pass)
	d.mu.Lock()
	dead := r.dead
	if !dead {
		r.reported[name] = record.Through
	}
	d.mu.Unlock()
	if !dead {
		d.add(l)
	}
}

// killStore is a store that can simulate a full disk, or a kill at one of its commits.
type killStore struct {
	state.Store
	daemon *single
	run    *run
}

func (s killStore) Commit(ctx context.Context, changes state.Changes) error {
	d := s.daemon
	d.mu.Lock()
	dead := s.run.dead
	d.mu.Unlock()
	if dead {
		return errors.New("killed")
	}
	at := s.run.kill.Load()
	if at == nil {
		return s.commit(ctx, changes)
	}
	if at.n--; at.n > 0 {
		return s.commit(ctx, changes)
	}
	s.run.kill.Store(nil)
	if at.after {
		if err := s.commit(ctx, changes); err != nil {
			return err
		}
	}
	s.markKilled()
	d.copyState(s.run)
	go func() {
		d.discard(s.run)
		d.start()
	}()
	return errors.New("killed")
}

// markKilled marks the process as dead. It adds a ghost for each evaluation at the current time
// that the process has stored, at least as an intention, but not reported. A reported evaluation
// with an open intention but no write also becomes a ghost, because the next process repeats it.
func (s killStore) markKilled() {
	d := s.daemon
	d.mu.Lock()
	defer d.mu.Unlock()
	s.run.dead = true
	for _, name := range sortedKeys(s.run.stored) {
		at := s.run.stored[name]
		_, open := s.run.open[name]
		listed := s.run.reported[name].Equal(at) && (!open || d.wrote(name, d.now()))
		if listed || d.world.Since(at) != d.now() {
			continue
		}
		d.ghosts = append(d.ghosts, sim.Ghost{A: name, T: d.world.Since(at), Unmade: open && !s.run.written[name].Equal(at)})
	}
}

func (d *single) wrote(name string, at sim.Dur) bool {
	return slices.ContainsFunc(d.lines, func(l sim.Line) bool { return l.A == name && l.T == at && len(l.Wrote) > 0 })
}

func (s killStore) commit(ctx context.Context, changes state.Changes) error {
	d := s.daemon
	now := d.now()
	for _, act := range d.scenario.Acts {
		if act.Kind == "full" && act.At <= now && now < act.Until {
			return errors.New("no space left on device")
		}
	}
	if err := s.Store.Commit(ctx, changes); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits = append(d.commits, d.now())
	for name, record := range changes.Records {
		s.run.stored[name] = record.Through
		delete(s.run.open, name)
		if record.Intention != nil {
			s.run.open[name], s.run.stored[name] = record.Intention.Time, record.Intention.Time
		}
	}
	return nil
}
