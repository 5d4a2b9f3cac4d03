package demo

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"
)

// Autoscaler is the name of the demo's only autoscaler.
const Autoscaler = "demo"

// MaxWorkers is the maximum number of workers. Workers need a port even while they are stopping, so
// there are twice as many Ports.
const (
	MaxWorkers = 10
	Ports      = 2 * MaxWorkers
)

// Setup contains the values for the demo's configuration.
type Setup struct {
	// Listen is hpad's address as HOST:PORT. Socket is the path of its socket. StateDir is the
	// directory for its state.
	Listen, Socket, StateDir string
	// Worker is the command that starts a worker, without the address of the queue.
	Worker []string
	// Queue is the queue's address as HOST:PORT.
	Queue string
	// FirstPort is the first port in a block of consecutive free ports. Ports is the size of the
	// block.
	FirstPort int
	// Duration is the duration of the load.
	Duration time.Duration
}

// Config returns the configuration as TOML text.
func (s Setup) Config() []byte {
	var text bytes.Buffer
	if err := configTemplate.Execute(&text, s); err != nil {
		panic(err) // the template is constant
	}
	return text.Bytes()
}

//go:embed setup.toml.tmpl
var configText string

var configTemplate = template.Must(template.New("setup").Funcs(template.FuncMap{"quote": quote}).Parse(configText))

// quote formats a string or a list of strings as JSON, which is also valid TOML.
func quote(value any) (string, error) {
	text, err := json.Marshal(value)
	return strings.ReplaceAll(string(text), `","`, `", "`), err
}

// Command returns the complete command that starts a worker.
func (s Setup) Command() []string {
	return append(s.Worker[:len(s.Worker):len(s.Worker)], "http://"+s.Queue)
}

// Ports returns the range of the workers' ports.
func (s Setup) Ports() string { return fmt.Sprintf("%d-%d", s.FirstPort, s.FirstPort+Ports-1) }

// MaxWorkers returns the maximum number of workers.
func (s Setup) MaxWorkers() int { return MaxWorkers }

const (
	minWindow = 3 * time.Second
	maxWindow = 15 * time.Second
)

// Window returns the scale-down window: one twelfth of the duration, within limits.
func (s Setup) Window() time.Duration {
	return min(max((s.Duration/12).Round(time.Second), minWindow), maxWindow)
}
