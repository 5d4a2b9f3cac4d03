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

// MaxWorkers is how many workers there may be. Each needs a port, and so do
// those that are about to end, so there have to be Ports of them.
const (
	MaxWorkers = 10
	Ports      = 2 * MaxWorkers
)

// Setup is what the demo's configuration is made of.
type Setup struct {
	// Listen is the HOST:PORT of hpad's own HTTP server, Socket the path of its
	// socket and StateDir the directory of its state.
	Listen, Socket, StateDir string
	// Worker is the command of a worker; the queue's address is added to it.
	Worker []string
	// Queue is the HOST:PORT of the queue.
	Queue string
	// FirstPort is the first of Ports free ports, one after the other.
	FirstPort int
	// Duration is how long the load takes; windows are short enough for it.
	Duration time.Duration
}

// Example is a setup to read; its addresses and paths are only examples.
func Example(duration time.Duration) Setup {
	return Setup{
		Listen: "127.0.0.1:4720", Socket: "/tmp/hpad-demo/hpad.sock", StateDir: "/tmp/hpad-demo/state",
		Worker: []string{"hpad", "demo", "worker", "--queue"}, Queue: "127.0.0.1:4729",
		FirstPort: 4730, Duration: duration,
	}
}

// Config returns the configuration as TOML text.
func (s Setup) Config() []byte {
	var text bytes.Buffer
	if err := configTemplate.Execute(&text, s); err != nil {
		// Every field that the template names is there, and a buffer takes all.
		panic(err)
	}
	return text.Bytes()
}

//go:embed setup.toml.tmpl
var configText string

var configTemplate = template.Must(template.New("setup").Funcs(template.FuncMap{"quote": quote}).Parse(configText))

// quote writes a text, or a list of them, as TOML does, which takes what JSON
// writes.
func quote(value any) (string, error) {
	text, err := json.Marshal(value)
	return strings.ReplaceAll(string(text), `","`, `", "`), err
}

// Command returns the whole command of a worker.
func (s Setup) Command() []string {
	return append(s.Worker[:len(s.Worker):len(s.Worker)], "http://"+s.Queue)
}

// Ports returns the workers' range of ports.
func (s Setup) Ports() string { return fmt.Sprintf("%d-%d", s.FirstPort, s.FirstPort+Ports-1) }

// MaxWorkers returns how many workers there may be.
func (s Setup) MaxWorkers() int { return MaxWorkers }

// The bounds of the scale-down window.
const (
	minWindow = 3 * time.Second
	maxWindow = 15 * time.Second
)

// Window returns the scale-down window: a twelfth of a wave.
func (s Setup) Window() time.Duration {
	each := s.Duration / time.Duration(Load{Duration: s.Duration}.Waves())
	return min(max((each/12).Round(time.Second), minWindow), maxWindow)
}
