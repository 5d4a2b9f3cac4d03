package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// InstancesOf reads the instances of an autoscaler's target and what its metrics measure
// of each, as a pass would, and decides nothing. No pass keeps them: a fleet of thousands
// has many, and few are ever looked at. The error is an api.ErrUnknown where there is no
// such autoscaler; a target that cannot be read is none.
func (d *Daemon) InstancesOf(ctx context.Context, name string) (api.InstanceList, error) {
	if err := d.AwaitRunning(ctx); err != nil {
		return api.InstanceList{}, err
	}
	known := d.current.Load().autoscalers[name]
	if known == nil {
		return api.InstanceList{}, fmt.Errorf("autoscaler %q: %w", name, api.ErrUnknown)
	}
	// Another autoscaler of the same definition: what a pass under way owns is not touched.
	other := &autoscaler{name: name}
	other.definition.Store(known.definition.Load())
	other.dates.Store(known.dates.Load())
	ready, completed := make(chan chunk, 1), make(chan *round, 1)
	r := newRound(&d.environment, newRoster([]*autoscaler{other}), d.clock.Now(), false, ready, completed)
	r.look = true
	r.unfinished.Store(1)
	list := make(chan api.InstanceList, 1)
	r.start(func(int) time.Time { return time.Time{} }) // nothing of before will do
	d.readers.Go(func() {
		<-ready
		list <- r.passes[0].list()
		r.passes[0].leave(0)
		r.end(1)
	})
	select {
	case found := <-list:
		return found, nil
	case <-ctx.Done():
		return api.InstanceList{}, context.Cause(ctx)
	}
}

// list returns the instances that the pass sees.
func (p *pass) list() api.InstanceList {
	list := api.InstanceList{Time: p.clock.Scale().Wall(p.now)}
	err := trouble.Guard(func() error {
		p.after = &result{}
		var reading targets.Reading
		observation := p.observe(&reading)
		if observation.ReadError != "" {
			list.Error = observation.ReadError
			return nil
		}
		list.Instances = p.shown(&observation, reading.Locations)
		list.Failed = p.measure(&observation, list.Instances)
		return nil
	})
	if err != nil {
		list.Error = err.Error()
	}
	return list
}

// shown returns the instances of an observation by the wall clock, without what was
// measured of them.
func (p *pass) shown(observation *policy.Observation, locations targets.Locations) []api.Instance {
	scale := p.clock.Scale()
	shown := make([]api.Instance, len(observation.Instances))
	for i := range shown {
		instance := &observation.Instances[i]
		shown[i] = api.Instance{
			ID: instance.ID, Phase: instance.Phase.String(), Readiness: instance.Readiness.String(), Deleting: instance.Deleting,
			ReadinessChanged: scale.Wall(instance.ReadinessChanged), Started: scale.Wall(instance.StartedAt),
		}
		if locations != nil {
			at := locations.At(i)
			shown[i].Name, shown[i].Node, shown[i].Protected = at.Name, at.Node, at.Protected
		}
	}
	return shown
}

// measure adds what each metric on instances says of them, and returns those that failed.
func (p *pass) measure(observation *policy.Observation, shown []api.Instance) (failed []api.FailedMetric) {
	spec := &p.definition.Spec
	for m := range observation.Metrics {
		metric, reading := &spec.Metrics[m], &observation.Metrics[m]
		switch metric.Type {
		case policy.ObjectMetric, policy.ExternalMetric:
			continue
		}
		if reading.Error != "" {
			failed = append(failed, api.FailedMetric{Type: metric.Type, Name: metric.Name, Task: metric.Task, Error: reading.Error})
			continue
		}
		for i, measured := range policy.Measure(p.definition.settings, metric, observation.Instances, reading, p.now) {
			shown[i].Metrics = append(shown[i].Metrics, api.InstanceMetric{Type: metric.Type, Name: metric.Name, Task: metric.Task, Measured: measured})
		}
	}
	return failed
}
