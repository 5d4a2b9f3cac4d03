package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/conformance/sim"
)

// sides maps the base name of each running scenario's directory to its side, so that a
// configuration can refer to a side.
var sides sync.Map

func addKinds() {
	kinds.Fleets["world"] = targets.Kind{
		Name: "world", Samples: true, LabelPlace: "the scenario",
		Config:    func() targets.Config { return new(fleetConfig) },
		Target:    func() targets.Target { return new(targetConfig) },
		Reference: targets.Reference{Paths: []string{"{service}"}, Example: "svc", Workload: "{name}"},
	}
	kinds.Sources["world"] = sources.Kind{Name: "world", Config: func() sources.Config { return new(sourceConfig) }}
}

type fleetConfig struct {
	World string `toml:"world"`
	Nonce int    `toml:"nonce"`
	targets.Discovery
}

func (c *fleetConfig) SetDefaults()                  { settings.SetDefaults(c) }
func (*fleetConfig) Validate() []settings.FieldError { return nil }
func (c *fleetConfig) Build(name string, _ targets.Env) (targets.Fleet, error) {
	found, _ := sides.Load(c.World)
	s := found.(*side)
	return &fleet{name: name, side: s, process: s.process}, nil
}

type targetConfig struct {
	Service string `toml:"service"`
}

func (*targetConfig) Validate() []settings.FieldError { return nil }
func (t *targetConfig) Name() string                  { return t.Service }

type fleet struct {
	name string
	side *side
	// process is the hpad process that built the fleet.
	process *process
}

func (f *fleet) Close() error { return nil }

func (f *fleet) index() int {
	i, _ := strconv.Atoi(strings.TrimPrefix(f.name, "f"))
	return i
}

func (f *fleet) Discover(context.Context) (all []targets.Discovered, err error) {
	for i := range f.side.scenario.Autoscalers {
		a := &f.side.scenario.Autoscalers[i]
		if f.side.scenario.FleetOf(i) != f.index() {
			continue
		}
		if spec, there := f.side.world.Targets[a.Name].Spec(f.side.now()); there {
			all = append(all, targets.Discovered{Name: a.Name, Labels: labelsOf(a, &spec, f.index())})
		}
	}
	return all, nil
}

func (f *fleet) Snapshot(_ context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	now := f.side.now()
	readings := map[targets.Ref]targets.Reading{}
	out := false
	for _, ref := range refs {
		reading, fleet, err := f.side.world.Targets[ref.Name].Read(now)
		out = out || fleet
		if err != nil {
			readings[ref] = targets.Reading{Err: fmt.Errorf("%w: %w", targets.ErrTransient, err), Observed: f.side.wall()}
			continue
		}
		next := targets.Reading{
			SpecReplicas: reading.Replicas, StatusReplicas: reading.Status,
			Version: strconv.Itoa(reading.Version), Observed: f.side.wall(),
		}
		of := f.side.fleetOf(ref.Name)
		for _, in := range reading.Instances {
			next.Instances = append(next.Instances, f.side.instance(in, of))
		}
		readings[ref] = next
	}
	time.Sleep(f.side.world.FleetDelay(now, f.index()).D())
	if out {
		return nil, fmt.Errorf("read fleet %q: %w", f.name, targets.ErrTransient)
	}
	return readings, nil
}

func (f *fleet) SetReplicas(_ context.Context, ref targets.Ref, n int32, version, _ string) error {
	f.side.mu.Lock()
	if f.process.dead {
		f.side.mu.Unlock()
		return targets.ErrTransient
	}
	f.process.written[ref.Name] = f.process.open[ref.Name]
	f.side.mu.Unlock()
	read, err := strconv.Atoi(version)
	if err != nil {
		read = -1
	}
	target := f.side.world.Targets[ref.Name]
	time.Sleep(target.WriteDelay(f.side.now()).D())
	lost := target.Lost(f.side.now())
	err = target.Scale(f.side.now(), n, read, 0)
	switch {
	case lost:
		return fmt.Errorf("%w: no response", targets.ErrUnknownOutcome)
	case errors.Is(err, sim.ErrConflict):
		return fmt.Errorf("%w: %w", targets.ErrConflict, err)
	case err != nil:
		return fmt.Errorf("%w: %w", targets.ErrTransient, err)
	}
	return nil
}

func (f *fleet) Samples(_ context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	now := f.side.now()
	all := map[targets.Ref]targets.Samples{}
	for _, ref := range refs {
		target := f.side.world.Targets[ref.Name]
		if target.SamplesFail(now) {
			all[ref] = targets.Samples{Err: errors.New("the samples cannot be read")}
			continue
		}
		var samples targets.Samples
		for _, taken := range target.Samples(now) {
			sample := targets.InstanceSample{ID: taken.ID, At: f.side.at(taken.At), Window: taken.Window.D()}
			for _, task := range sortedKeys(taken.Tasks) {
				sample.Tasks = append(sample.Tasks, policy.TaskUsage{Task: task, Usage: amountsOf(taken.Tasks[task])})
			}
			samples.Instances = append(samples.Instances, sample)
		}
		all[ref] = samples
	}
	return all, nil
}

func (s *side) at(d sim.Dur) time.Time {
	at := s.world.At(d)
	for _, act := range s.scenario.Acts {
		if act.Kind == "step" && act.At <= d {
			at = at.Add(act.By.D())
		}
	}
	return at
}

func (s *side) fleetOf(name string) *sim.Fleet {
	i := slices.IndexFunc(s.scenario.Autoscalers, func(a sim.Autoscaler) bool { return a.Name == name })
	return &s.scenario.Autoscalers[i].Fleet
}

func (s *side) instance(in sim.Instance, of *sim.Fleet) policy.Instance {
	out := policy.Instance{ID: in.ID, Deleting: in.Deleting}
	switch in.Phase {
	case "Pending":
		out.Phase = policy.PhasePending
	case "Running":
		out.Phase = policy.PhaseRunning
	case "Succeeded":
		out.Phase = policy.PhaseSucceeded
	case "Failed":
		out.Phase = policy.PhaseFailed
	default:
		panic("phase " + in.Phase)
	}
	switch in.Ready {
	case "True":
		out.Readiness = policy.ReadinessTrue
	case "False":
		out.Readiness = policy.ReadinessFalse
	case "Unknown":
		out.Readiness = policy.ReadinessUnknown
	}
	if in.HasStarted {
		out.StartedAt = s.at(in.Started)
	}
	if in.Ready != "" {
		out.ReadinessChanged = s.at(in.ReadySince)
	}
	if of.Whole != nil && !of.ByConfig {
		out.Requests = amountsOf(of.Whole)
	}
	for _, task := range of.Tasks {
		out.Tasks = append(out.Tasks, policy.Task{Name: task.Name, Requests: amountsOf(task.Requests)})
	}
	return out
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func amountsOf(milli map[string]int64) (amounts []policy.Amount) {
	for _, name := range sortedKeys(milli) {
		amounts = append(amounts, policy.Amount{Resource: name, Milli: milli[name]})
	}
	return amounts
}
