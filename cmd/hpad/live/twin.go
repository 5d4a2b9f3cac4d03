package live

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hpad/hpad/daemon/kinds"
)

// checkTwins finds autoscalers whose targets are one, reached by fleets that only
// the platform knows to be one engine: an instance is in both. Where there are no
// instances it finds nothing.
func (c *checker) checkTwins() {
	type instance struct{ kind, id string }
	owners := map[instance]string{}
	for _, name := range slices.Sorted(maps.Keys(c.config.Autoscalers)) {
		a := c.config.Autoscalers[name]
		kind := c.config.Fleets[a.Target.Fleet].Kind
		if !kinds.Fleets[kind].Unique {
			continue
		}
		reading := c.readings[a.Target.Fleet].readings[a.Target]
		for i := range reading.Instances {
			key := instance{kind, reading.Instances[i].ID}
			owner, taken := owners[key]
			if !taken {
				owners[key] = name
				continue
			}
			other, engine := c.config.Autoscalers[owner].Target, ""
			if other.Fleet != a.Target.Fleet {
				engine = fmt.Sprintf(", so that fleets %q and %q are the same engine", other.Fleet, a.Target.Fleet)
			}
			c.problem("autoscalers."+name+".target", fmt.Sprintf(
				"%s is the target of autoscaler %q too, there %s: both have the instance %s%s; two autoscalers cannot scale the same target",
				a.Target, owner, other, key.id, engine))
			break
		}
	}
}
