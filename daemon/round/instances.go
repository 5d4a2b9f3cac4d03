package round

import (
	"context"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Instances reads the instances of an autoscaler's target and their metrics like a pass, but makes
// no decision. If a read fails, the list contains its error.
func (s *Scheduler) Instances(ctx context.Context, a *Autoscaler) (api.InstanceList, error) {
	// The copy shares the definition. An active pass owns the data of the original.
	other := &Autoscaler{Name: a.Name}
	other.definition.Store(a.definition.Load())
	other.dates.Store(a.dates.Load())
	ready, completed := make(chan *pass, 1), make(chan *round, 1)
	r := newRound(s.env, newAutoscalerSet([]*Autoscaler{other}), s.env.Clock.Now(), ready, completed)
	r.readOnly = true
	r.unfinished.Store(1)
	list := make(chan api.InstanceList, 1)
	r.start()
	s.env.readers.Go(func() {
		p := <-ready
		list <- p.list()
		p.releaseResults()
		r.end()
	})
	select {
	case found := <-list:
		return found, nil
	case <-ctx.Done():
		return api.InstanceList{}, context.Cause(ctx)
	}
}

// list returns the instances that the pass has read.
func (p *pass) list() api.InstanceList {
	list := api.InstanceList{Time: p.env.Clock.Scale().Wall(p.now())}
	err := guard.Call(func() error {
		p.after = &passResult{Result: new(Result)}
		observation, reading := p.observation()
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

// shown returns the instances of an observation with wall-clock times and without metrics.
func (p *pass) shown(observation *policy.Observation, locations targets.Locations) []api.Instance {
	scale := p.env.Clock.Scale()
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
			shown[i].Failing, shown[i].UnreadyReason, shown[i].HealthOutput = at.Failing, shownReason(at.UnreadyReason), shownReason(at.HealthOutput)
			if instance.Deleting && p.env.EndpointsWithdrawing(p.definition.Target) {
				shown[i].UnreadyReason = "draining: waits until the endpoints are published"
			}
			if host, port, err := at.Endpoint(p.definition.PortLabel()); err == nil {
				shown[i].Address = targets.JoinHostPort(host, port)
			}
		}
	}
	return shown
}

// measure adds the metrics of the instances, and returns the failed metrics.
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
		for i, measured := range policy.Measure(p.definition.Settings, metric, observation.Instances, reading, p.now()) {
			shown[i].Metrics = append(shown[i].Metrics, api.InstanceMetric{Type: metric.Type, Name: metric.Name, Task: metric.Task, Binary: metric.Target.Binary, Measured: measured})
		}
	}
	return failed
}
