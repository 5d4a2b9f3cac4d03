package nomad

import (
	"fmt"

	"github.com/hpad/hpad/test/internal/world"
)

// patience is the maximum time that the tests wait for hpad or Nomad.
const patience = world.Patience

// fleet returns the configuration of a fleet named "prod".
func fleet(address, extra string) string {
	return fmt.Sprintf("[fleets.prod]\nkind = \"nomad\"\naddress = %q\nresource_interval = \"1s\"\ntimeout = \"3s\"\n%s\n", address, extra)
}

// queued returns the configuration of an autoscaler that requires one instance per 10 queued
// items. Its scale-down window is 2 s.
func queued(job string, minimum, maximum int) string {
	return world.Queued(job, fmt.Sprintf(`{ fleet = "prod", job = %q, group = "app" }`, job), minimum, maximum)
}
