package live

import (
	"context"
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/targets"
)

// discoverTargets discovers targets by their labels, if the fleet is configured to do so, and adds
// their autoscalers.
func (c *checker) discoverTargets(ctx context.Context, key string, fleet config.Fleet, built targets.Fleet) {
	discoverer, ok := built.(targets.Discoverer)
	if !fleet.Discover || !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := discoverer.Discover(ctx)
	if err != nil {
		c.problem(key, fmt.Sprintf("discover targets by labels: %v", err))
	}
	found = discovery.Bounded(found)
	c.labels.Keep(fleet.Name, discovery.Found{Targets: found})
	merged := c.labels.Merge(c.file)
	c.config = merged.Config
	active, over := 0, 0
	for _, target := range found {
		ref := targets.Ref{Fleet: fleet.Name, Name: target.Name}
		switch judged := merged.Of(ref); {
		case judged.State == api.DiscoveredOverridden:
			owner := judged.Autoscaler
			if owner == config.LabelsName(c.config.Autoscalers[owner].Target) { // its target was also discovered
				c.problem(key, fmt.Sprintf("the labels of %s are ignored: autoscaler %q, from a fleet on the same engine, scales it; set discover in only one of these fleets", ref, owner))
				continue
			}
			c.note(key, fmt.Sprintf("the labels of %s are ignored: autoscaler %q in the configuration takes precedence", ref, owner))
		case target.Problem != "":
			c.problem(key, fmt.Sprintf("the labels of %s are not usable: %s", ref, target.Problem))
		case judged.Over:
			over++
		case judged.State == api.DiscoveredInvalid:
			for _, invalid := range judged.Errors {
				c.problem(key, fmt.Sprintf("the labels of %s are invalid: %s", ref, invalid.Text()))
			}
		case judged.State == api.DiscoveredActive:
			active++
			for _, warning := range c.config.Autoscalers[judged.Autoscaler].Warnings {
				if warning.Unworkable {
					c.problem(key, fmt.Sprintf("the labels of %s define an autoscaler that cannot work: %s", ref, warning.Text()))
					continue
				}
				c.note(key, fmt.Sprintf("suspicious labels of %s: %s", ref, warning.Text()))
			}
		}
	}
	if err != nil && len(found) == 0 {
		return
	}
	if over > 0 {
		limit := c.config.LabelLimits(fleet.Name).Autoscalers
		c.problem(key, fmt.Sprintf("%s exceed the limit for autoscalers from labels (%s)", explain.Plural(over, "target"), config.LabelLimit(fleet.Name, "autoscalers", limit)))
	}
	c.note(key, fmt.Sprintf("discovers %s", explain.Plural(active, "target")))
}
