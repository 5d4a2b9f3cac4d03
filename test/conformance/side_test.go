package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/conformance/sim"
)

// side is the hpad side of one scenario: the simulated fleet and the results.
type side struct {
	t        *testing.T
	scenario *sim.Scenario
	world    *sim.World
	dir      string
	// url is the address of servePrometheus for this side.
	url string
	// nonce is part of the configuration of fleets and sources. A reload with a different nonce
	// replaces all of them.
	nonce int
	// converted is that of runner.
	converted map[string]string
	// step is the sum of all wall clock steps so far.
	step    time.Duration
	config  sim.Config
	process *process

	mu       sync.Mutex
	lines    []sim.Line
	problems []string
	ghosts   []sim.Ghost
	commits  []sim.Dur
}

// process is one hpad process as seen by the fleet. side.mu guards it.
type process struct {
	// dead is true if the scenario has killed the process. A dead process cannot write counts.
	dead bool
	// An intention is the stored record of a planned write. It is open until the outcome is stored.
	// open maps autoscalers to the time of their open intention. written maps autoscalers to the
	// time of the last intention that led to a write.
	open, written map[string]time.Time
}

func play(t *testing.T, s *sim.Scenario, url string, converted map[string]string) (played sim.Played) {
	played.Name = s.Name
	dir, err := os.MkdirTemp(memory(), "conformance-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() {
		if r := recover(); r != nil {
			played.Error = fmt.Sprint("panic: ", r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		sim.Begin()
		own := &side{
			t: t, scenario: s, world: sim.NewWorld(s, time.Now()), dir: dir, url: url + "/" + filepath.Base(dir), config: s.Config,
			converted: converted,
			process:   &process{open: map[string]time.Time{}, written: map[string]time.Time{}},
		}
		sides.Store(filepath.Base(dir), own)
		defer sides.Delete(filepath.Base(dir))
		if s.Members > 0 {
			playCluster(own)
		} else {
			playDaemon(own)
		}
		played.Lines, played.Ghosts, played.Commits = own.lines, own.ghosts, own.commits
		played.Error = strings.Join(own.problems, "\n")
	})
	return played
}

// memory returns the parent of the state directories. It is an in-memory file system if the host
// has one, because every evaluation is committed to the file system.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func logger() *zap.Logger {
	if *showLog {
		log, _ := zap.NewDevelopment()
		return log
	}
	return zap.NewNop()
}

func (s *side) now() sim.Dur { return s.world.Since(time.Now()) }

func (s *side) wall() time.Time { return time.Now().Add(s.step) }

func (s *side) file() string { return filepath.Join(s.dir, "hpad.toml") }

func (s *side) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf("%s: ", s.now())+fmt.Sprintf(format, args...))
}

func (s *side) perform(actions []action) {
	sortActions(actions)
	for _, action := range actions {
		time.Sleep(time.Until(s.world.At(action.at)))
		synctest.Wait()
		action.do()
		synctest.Wait()
	}
	time.Sleep(time.Until(s.world.At(s.world.End())))
	synctest.Wait()
}

// line returns the line of an evaluation at the time at.
func (s *side) line(autoscaler string, at sim.Dur, pass *status.Pass) sim.Line {
	record := &pass.Record
	now := &record.Status
	l := sim.Line{A: autoscaler, T: at, Want: now.DesiredReplicas, Cur: now.CurrentReplicas}
	l.Read, l.Wrote, l.Ready = s.world.Targets[record.Target.Name].Taken(at)
	l.Err = pass.Decision.Error != "" || pass.Outcome.Error != ""
	for _, text := range []string{pass.Decision.Error, pass.Outcome.Error, pass.Decision.Message} {
		if text != "" {
			l.Said = append(l.Said, text)
		}
	}
	if !now.LastScaleTime.IsZero() {
		l.Last = s.world.Since(now.LastScaleTime).String()
	}
	for _, c := range now.Conditions {
		if sim.Conditions[string(c.Type)] {
			l.Conditions = append(l.Conditions, fmt.Sprintf("%s=%s/%s@%s", c.Type, c.Status, c.Reason, s.world.Since(c.Since)))
		}
	}
	for i := range now.Metrics {
		l.Metrics = append(l.Metrics, statusText(&now.Metrics[i]))
	}
	for _, recommendation := range record.Memory.Recommendations {
		l.Recs = append(l.Recs, fmt.Sprintf("%d@%s", recommendation.Replicas, s.world.Since(recommendation.Time)))
	}
	l.Ups, l.Downs = s.changes(record.Memory.ScaleUpEvents), s.changes(record.Memory.ScaleDownEvents)
	for _, e := range pass.Events {
		if e.Last.Equal(record.Through) && sim.Events[e.Reason] {
			l.Events = append(l.Events, e.Reason)
			l.Said = append(l.Said, e.Reason+": "+e.Message)
		}
	}
	l.Events = sim.Set(l.Events)
	return l
}

func (s *side) changes(events []policy.ScaleEvent) (all []string) {
	for _, e := range events {
		text := fmt.Sprintf("%d@%s", e.Change, s.world.Since(e.Time))
		if e.Outdated {
			text += "*"
		}
		all = append(all, text)
	}
	return all
}

func (s *side) add(l sim.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, l)
}

func statusText(m *policy.MetricStatus) string {
	if m.Type == "" {
		return "-"
	}
	text := string(m.Type)
	if m.Type == policy.InstancesMetric {
		text = "Pods"
	}
	if m.AverageUtilization != nil {
		text += fmt.Sprintf(" %d%%", *m.AverageUtilization)
	}
	if m.AverageValueMilli != nil {
		text += fmt.Sprintf(" average %d", *m.AverageValueMilli)
	}
	if m.ValueMilli != nil {
		text += fmt.Sprintf(" value %d", *m.ValueMilli)
	}
	if text == string(m.Type) && (m.Type == policy.ObjectMetric || m.Type == policy.ExternalMetric) {
		text += " ?" // R45
	}
	return text
}

// action is one action of a scenario.
type action struct {
	at sim.Dur
	do func()
}
