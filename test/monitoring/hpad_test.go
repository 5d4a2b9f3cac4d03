package monitoring

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/gce/gcetest"
	"github.com/hpad/hpad/test/internal/world"
)

const patience = world.Patience

// unreachable is an address on which no server listens.
const unreachable = "127.0.0.1:1"

// hpad is a daemon with fleets and sources of every kind, some of which fail.
type hpad struct {
	*world.World
	load *world.Load
	// address is the host and port of /metrics.
	address string
}

// labeled is a fleet with labels that define one valid and one invalid autoscaler.
type labeled struct{ *targettest.Memory }

func (labeled) Discover(context.Context) ([]targets.Discovered, error) {
	return []targets.Discovered{
		{Name: "asks", Labels: map[string]string{"hpad.enable": "true", "hpad.max": "3", "hpad.cpu": "60"}},
		{Name: "stammers", Labels: map[string]string{"hpad.enable": "true", "hpad.max": "many"}},
	}, nil
}

// start runs the daemon until the test ends.
func start(t *testing.T) *hpad {
	t.Helper()
	h := &hpad{load: world.NewLoad(t)}
	h.load.Queue("worker", 40)
	h.World = world.NewWrapped(t, h.configuration(t), inMemory)
	server := httptest.NewServer(h.Handler())
	t.Cleanup(server.Close)
	h.address = strings.TrimPrefix(server.URL, "http://")
	return h
}

// inMemory replaces the fleet "labeled" with an in-memory fleet.
func inMemory(name string, fleet targets.Fleet) targets.Fleet {
	if name != "labeled" {
		return fleet
	}
	memory := targettest.NewMemory(name)
	memory.Add("asks", targettest.MemoryTarget{Replicas: 1, Age: time.Hour})
	return labeled{memory}
}

// configuration returns hpad's configuration. The rate limit of the AWS fleet is below one call per
// round, so that some calls wait.
func (h *hpad) configuration(t *testing.T) string {
	t.Helper()
	aws, gce, azure := awstest.New(t), gcetest.Start(t), azuretest.New(t)
	aws.Add(awstest.Group{Name: "web", Max: 100, Desired: 1})
	azure.Throttle(time.Second)
	text := fmt.Sprintf(`
[notifications.nobody]
url = "http://127.0.0.1:1/"
[fleets.local]
kind     = "process"
services = { worker = { command = ["sleep", "1000000"] }, idler = { command = ["sleep", "1000000"] } }
[fleets.labeled]
kind     = "compose"
discover = true
[fleets.compose]
kind = "compose"
host = "tcp://%[1]s"
breaker = { max_removed = "50%%" }
[fleets.swarm]
kind = "swarm"
host = "tcp://%[1]s"
[fleets.nomad]
kind    = "nomad"
address = "http://%[1]s"
[fleets.aws]
kind             = "awsasg"
region           = %[2]q
credentials_file = %[3]q
endpoints        = { auto_scaling = %[4]q, ec2 = %[4]q, sts = %[4]q }
reads_per_second = 0.7
[fleets.gce]
kind             = "gcemig"
project          = %[5]q
endpoint         = %[6]q
credentials_file = %[7]q
%[8]s
[sources.gone]
kind = "prometheus"
url  = "http://%[1]s"
`, unreachable, awstest.Region, aws.Credentials(t), aws.URL, gce.Project, gce.Endpoint, gce.CredentialsFile(t), azure.TOML("azure", ""))
	var whole strings.Builder
	whole.WriteString(text + h.load.Source())
	for name, target := range map[string]string{
		"worker":  `{ fleet = "local", service = "worker" }`,
		"compose": `{ fleet = "compose", project = "shop", service = "web" }`,
		"swarm":   `{ fleet = "swarm", service = "shop_web" }`,
		"nomad":   `{ fleet = "nomad", job = "shop", group = "web" }`,
		"aws":     `{ fleet = "aws", group = "web" }`,
		"gce":     `{ fleet = "gce", group = "web", zone = "us-east1-b" }`,
		"azure":   `{ fleet = "azure", resource_group = "shop", scale_set = "web" }`,
	} {
		whole.WriteString(world.Queued(name, target, 1, 4))
	}
	off := world.Queued("off", `{ fleet = "compose", project = "shop", service = "off" }`, 1, 4)
	whole.WriteString(strings.Replace(off, "[autoscalers.off]\n", "[autoscalers.off]\nmode = \"off\"\n", 1))
	return whole.String() + strings.ReplaceAll(world.Queued("idler", `{ fleet = "local", service = "idler" }`, 1, 4)+ofInstances, `"prom"`, `"gone"`)
}

// ofInstances contains the metrics of the autoscaler idler whose types the other autoscalers do not
// use.
const ofInstances = `
[[autoscalers.idler.metrics]]
type           = "Instances"
source         = "prom"
query          = "requests"
instance_label = "instance"
average_value  = "10"
[[autoscalers.idler.metrics]]
type           = "ContainerResource"
task           = "idler"
resource       = "memory"
source         = "prom"
query          = "memory"
instance_label = "instance"
average_value  = "1Mi"
[[autoscalers.idler.metrics]]
type          = "Resource"
resource      = "memory"
average_value = "1Gi"
`

// family maps the labels of a metric to their values. nil means any value.
type family map[string]map[string]bool

// exported returns the exported metrics by the names that queries use.
func (h *hpad) exported() map[string]family {
	found := map[string]family{"up": targetLabels()}
	for _, name := range []string{"member", "members", "owned_fleets", "unowned_fleets", "terms_total", "fenced_writes_total"} {
		found["hpad_cluster_"+name] = targetLabels() // exported only by cluster members
	}
	offset := targetLabels()
	offset["member"] = nil
	found["hpad_cluster_clock_offset_seconds"] = offset
	for _, each := range h.Families() {
		suffixes := []string{""}
		if each.GetType().String() == "HISTOGRAM" {
			suffixes = []string{"_count", "_sum", "_bucket"}
		}
		for _, suffix := range suffixes {
			labels := targetLabels()
			if suffix == "_bucket" {
				labels["le"] = nil
			}
			for _, metric := range each.Metric {
				for _, label := range metric.Label {
					if labels[label.GetName()] == nil {
						labels[label.GetName()] = map[string]bool{}
					}
					labels[label.GetName()][label.GetValue()] = true
				}
			}
			found[each.GetName()+suffix] = labels
		}
	}
	return found
}

// targetLabels returns the labels that Prometheus adds to every series.
func targetLabels() family { return family{"job": nil, "instance": nil} }

func (f family) String() string { return strings.Join(slices.Sorted(maps.Keys(f)), ", ") }
