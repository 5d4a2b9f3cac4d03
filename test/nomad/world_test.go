package nomad

import (
	"fmt"

	"github.com/hpad/hpad/test/internal/world"
)

// patience is the time limit for actions that take seconds on an idle host.
const patience = world.Patience

// fleet is the configuration of a fleet called prod.
func fleet(address, extra string) string {
	return fmt.Sprintf("[fleets.prod]\nkind = \"nomad\"\naddress = %q\nresource_interval = \"1s\"\ntimeout = \"3s\"\n%s\n", address, extra)
}

// queued returns an autoscaler with one instance for each 10 in the queue, and a scale-down
// window of 2 seconds.
func queued(job string, minimum, maximum int) string {
	return world.Queued(job, fmt.Sprintf(`{ fleet = "prod", job = %q, group = "app" }`, job), minimum, maximum)
}
