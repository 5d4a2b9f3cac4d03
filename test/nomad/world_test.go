package nomad

import (
	"fmt"

	"github.com/hpad/hpad/test/internal/world"
)

// patience is how long hpad and Nomad may take to do what they do within seconds
// on an idle machine.
const patience = world.Patience

// fleet is the configuration of a fleet called prod.
func fleet(address, extra string) string {
	return fmt.Sprintf("[fleets.prod]\nkind = \"nomad\"\naddress = %q\nresource_interval = \"1s\"\ntimeout = \"3s\"\n%s\n", address, extra)
}

// queued is that of an autoscaler that gives a job an instance for each 10 in its
// queue, and shrinks after 2 seconds.
func queued(job string, minimum, maximum int) string {
	return world.Queued(job, fmt.Sprintf(`{ fleet = "prod", job = %q, group = "app" }`, job), minimum, maximum)
}
