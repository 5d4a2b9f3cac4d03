package endpoints

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/template"
	"github.com/hpad/hpad/targets"
)

// Config is the table "endpoints" of a target.
type Config struct {
	// File is the absolute path of a file that hpad writes when the ready instances change.
	File string `toml:"file"`
	// Template is the content of the file as a Go template, whose data config.md describes; by
	// default, one address per line.
	Template string `toml:"template" requires:"file"`
	// Command is a program with its arguments; it runs without a shell after each change of the
	// file.
	Command []string `toml:"command" requires:"file"`
	// Port is the label of the port, for instances with several ports; by default, the unnamed port
	// or the port with the lowest label.
	Port string `toml:"port"`
	// Timeout limits one run of the command, which is then killed: up to 5m.
	Timeout time.Duration `toml:"timeout" default:"30s" above:"0s" max:"5m" must:"more than 0, and 5m at most"`
}

// Directory is where files are written by default. The unit of the packages creates it, and all
// users can read it.
const Directory = "/var/cache/hpad"

// defaultTemplate writes one address per line.
const defaultTemplate = "{{range .Instances}}{{.Address}}\n{{end}}"

// Validate returns all errors in the table. It executes the template with two example instances
// and with none.
func (c *Config) Validate() []settings.FieldError {
	var errs settings.FieldErrors
	switch {
	case c.File == "" && c.Port == "" && c.Template == "" && c.Command == nil:
		errs.Add("file", "", `is required: the absolute path of the file to write`)
	case c.File != "" && (!filepath.IsAbs(c.File) || filepath.Clean(c.File) != c.File):
		errs.Add("file", strconv.Quote(c.File), `must be an absolute path without "..", such as "`+Directory+`/web.map"`)
	}
	if c.Command != nil && (len(c.Command) == 0 || c.Command[0] == "") {
		errs.Add("command", "", `must be a program with its arguments, such as ["systemctl", "reload", "nginx"]`)
	}
	parsed, err := c.parse()
	for _, instances := range [][]Instance{examples, nil} {
		if err == nil {
			_, err = parsed.Execute(&data{Autoscaler: "web", Fleet: "local", Target: "web", Instances: instances})
		}
	}
	if err != nil {
		errs.Add("template", "", strings.TrimPrefix(err.Error(), "template: "))
	}
	return append(errs, settings.Validate(c)...)
}

var examples = []Instance{
	{ID: "web-1", Name: "web-1", Node: "host-1", Host: "192.0.2.1", Port: 8001, Address: "192.0.2.1:8001"},
	{ID: "web-2", Name: "web-2", Node: "host-2", Host: "192.0.2.2", Port: 8002, Address: "192.0.2.2:8002"},
}

func (c *Config) parse() (*template.Template, error) {
	return template.Parse(cmp.Or(c.Template, defaultTemplate), nil)
}

// data is the input of a template.
type data struct {
	Autoscaler, Fleet, Target string
	// Instances contains the ready instances, sorted by host, port and ID.
	Instances []Instance
}

// Instance is a ready instance.
type Instance struct {
	ID string
	// Name is the platform's name of the instance, or its ID. Node may be empty.
	Name, Node string
	// Host contains a name or an IP address. Port is 0 if the instance has no port. Address
	// contains both.
	Host    string
	Port    int
	Address string
}

// Ready returns the instances that are ready and not terminating, sorted by host, port and ID. The
// argument port is the label of the port. It is an error if an instance has no address or no such
// port.
func Ready(reading *targets.Reading, port string) ([]Instance, error) {
	var ready []Instance
	for i := range reading.Instances {
		instance := &reading.Instances[i]
		if instance.Deleting || instance.Phase != policy.PhaseRunning || instance.Readiness != policy.ReadinessTrue {
			continue
		}
		var location targets.Location
		if reading.Locations != nil {
			location = reading.Locations.At(i)
		}
		host, number, err := location.Endpoint(port)
		if err != nil {
			return nil, fmt.Errorf("endpoint of instance %q: %w", instance.ID, err)
		}
		ready = append(ready, Instance{
			ID: instance.ID, Name: cmp.Or(location.Name, instance.ID), Node: location.Node,
			Host: host, Port: number, Address: targets.JoinHostPort(host, number),
		})
	}
	slices.SortFunc(ready, func(a, b Instance) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), strings.Compare(a.ID, b.ID))
	})
	return ready, nil
}
