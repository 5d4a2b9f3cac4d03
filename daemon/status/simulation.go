package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/simulate"
)

// Policies implements [api.Daemon].
func (s *Reader) Policies(name string, variants []config.Variant) ([]simulate.Policy, error) {
	g := s.scheduler.Current()
	a := g.Autoscalers[name]
	if a == nil {
		return nil, api.ErrUnknown
	}
	return PoliciesOf(g.Config, a.Definition().Autoscaler, variants)
}

// activeLabel is the label of the active policy.
const activeLabel = "active"

// PoliciesOf returns the policy of an autoscaler of a configuration, and the policy of each variant. The
// error of a variant contains a config.Errors.
func PoliciesOf(c *config.Config, a *config.Autoscaler, variants []config.Variant) ([]simulate.Policy, error) {
	policies := []simulate.Policy{a.Policy(c.Daemon, activeLabel)}
	for i := range variants {
		v := &variants[i]
		varied, daemon, err := c.Varied(a, v)
		if err == nil {
			err = sameInputs(a, varied)
		}
		if err != nil {
			return nil, fmt.Errorf("variant %q: %w", v.Label(), err)
		}
		policies = append(policies, varied.Policy(daemon, v.Label()))
	}
	return policies, nil
}

// sameInputs returns an error if a variant reads a metric from elsewhere than the autoscaler, because the
// recorded values do not apply to it.
func sameInputs(a, varied *config.Autoscaler) error {
	recorded := simulate.MetricNames(a.Spec.Metrics)
	for i, name := range simulate.MetricNames(varied.Spec.Metrics) {
		at := slices.Index(recorded, name)
		if at < 0 || varied.Spec.Metrics[i].Formula != "" {
			continue // the simulation reports a metric without values
		}
		was, is := &a.Inputs[at], &varied.Inputs[i]
		if was.Source != is.Source || was.Query != is.Query || !slices.Equal(was.Select, is.Select) || was.InstanceLabel != is.InstanceLabel || was.Match != is.Match ||
			a.Spec.Metrics[at].Type != varied.Spec.Metrics[i].Type {
			return config.Errors{{Key: fmt.Sprintf("metrics[%d]", i), Detail: fmt.Sprintf(
				"cannot have another type, source, query or selection than the active metric %q: its values are not recorded", name)}}
		}
	}
	return nil
}

// Recording implements [api.Daemon].
func (s *Reader) Recording(_ context.Context, name string, from, to time.Time) (simulate.Recording, error) {
	if s.env.Graph == nil {
		return simulate.Recording{}, errNoGraph
	}
	scale := s.env.Clock.Scale()
	recording, err := s.env.Graph.Recording(name, scale.Monotonic(from), scale.Monotonic(to))
	for i := range recording.Ticks {
		recording.Ticks[i].Time = scale.Wall(recording.Ticks[i].Time)
	}
	for i := range recording.Notes {
		recording.Notes[i].Time = scale.Wall(recording.Notes[i].Time)
	}
	return recording, err
}

// QueriedRecording implements [api.Daemon].
func (s *Reader) QueriedRecording(ctx context.Context, name string, from, to time.Time) (simulate.Recording, error) {
	a := s.scheduler.Current().Autoscalers[name]
	if a == nil {
		return simulate.Recording{}, api.ErrUnknown
	}
	return a.Definition().QueryRecording(ctx, from, to)
}
