package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

// discoverTargets has a fleet find the targets that ask for an autoscaler by
// their labels, where the configuration says so, and adds their autoscalers.
func (c *checker) discoverTargets(ctx context.Context, key string, fleet config.Fleet, built targets.Fleet) {
	able, ok := built.(targets.Discoverer)
	if !fleet.Discover || !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := able.Discover(ctx)
	if err != nil {
		c.problem(key, fmt.Sprintf("discover targets by their labels: %v", err))
	}
	owners := c.config.Owners()
	active, over := 0, 0
	for _, target := range found {
		ref := targets.Ref{Fleet: fleet.Name, Name: target.Name}
		a, enabled, err := c.config.Labeled(ref, target.Labels)
		mistakes, _ := errors.AsType[config.Errors](err)
		switch owner := owners.Of(ref, target.Aliases); {
		case owner != "" && (enabled || err != nil):
			if owner == config.LabelsName(c.config.Autoscalers[owner].Target) { // found by its labels too
				c.problem(key, fmt.Sprintf("the labels of %s are ignored: autoscaler %q scales it, whose fleet is the same engine; let one of the fleets discover", ref, owner))
				continue
			}
			c.note(key, fmt.Sprintf("the labels of %s are ignored: autoscaler %q of the configuration wins", ref, owner))
		case target.Problem != "":
			c.problem(key, fmt.Sprintf("the labels of %s cannot be used: %s", ref, target.Problem))
		case err != nil:
			for _, mistake := range mistakes {
				c.problem(key, fmt.Sprintf("the labels of %s have a mistake: %s", ref, mistake.Text()))
			}
		case enabled && active >= c.config.LabelLimits(fleet.Name).Autoscalers:
			over++
		case enabled:
			active++
			c.config.Autoscalers[a.Name] = a
			for _, warning := range a.Warnings {
				c.note(key, fmt.Sprintf("the labels of %s may not mean what they say: %s", ref, warning.Text()))
			}
		}
	}
	if err != nil && len(found) == 0 {
		return
	}
	if over > 0 {
		limit := c.config.LabelLimits(fleet.Name).Autoscalers
		c.problem(key, fmt.Sprintf("%s too many for an autoscaler by their labels (%s)", count(over, "target"), config.LabelLimit(fleet.Name, "autoscalers", limit)))
	}
	c.note(key, fmt.Sprintf("discovers %s", count(active, "target")))
}
