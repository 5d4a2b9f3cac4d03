// Package kinds lists the kinds of fleets, sources and drains.
package kinds

import (
	"maps"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/embedded"
	sourceexec "github.com/hpad/hpad/sources/exec"
	sourcehttp "github.com/hpad/hpad/sources/http"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/drain/command"
	"github.com/hpad/hpad/targets/drain/webhook"
	"github.com/hpad/hpad/targets/exec"
	"github.com/hpad/hpad/targets/http"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/nomad/drainer"
	"github.com/hpad/hpad/targets/process"
	"github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/systemd"
)

// Fleets maps names to the kinds of fleets in this build. Files with build tags add kinds. It must
// not be changed later.
var Fleets = map[string]targets.Kind{
	process.Kind.Name: process.Kind,
	nomad.Kind.Name:   nomad.Kind,
	compose.Kind.Name: compose.Kind,
	swarm.Kind.Name:   swarm.Kind,
	systemd.Kind.Name: systemd.Kind,
	http.Kind.Name:    http.Kind,
	exec.Kind.Name:    exec.Kind,
}

// Sources maps names to the kinds of sources. It must not be changed.
var Sources = map[string]sources.Kind{
	sourceexec.Kind.Name: sourceexec.Kind,
	sourcehttp.Kind.Name: sourcehttp.Kind,
	prometheus.Kind.Name: prometheus.Kind,
	embedded.Kind.Name:   embedded.Kind,
}

// Drains maps names to the kinds of drains. It must not be changed.
var Drains = map[string]drain.Kind{
	drainer.Kind.Name: drainer.Kind,
	webhook.Kind.Name: webhook.Kind,
	command.Kind.Name: command.Kind,
}

// tags maps the optional kinds to the build tags that omit them.
var tags = map[string]string{"awsasg": "noaws", "azurevmss": "noazure", "gcemig": "nogce"}

// Omitted returns the kinds of fleets that this build omits, with their build tags.
func Omitted() map[string]string {
	omitted := maps.Clone(tags)
	maps.DeleteFunc(omitted, func(name, _ string) bool { return Fleets[name].Name != "" })
	return omitted
}
