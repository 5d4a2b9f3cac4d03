package process

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
	"github.com/hpad/hpad/targets/restart"
)

// instance is one instance of a service: a process that is restarted whenever it ends, until
// the instance is stopped.
type instance struct {
	id       string
	index    int
	name     string
	service  string
	config   Service
	launcher *launcher
	out      *lines
	created  time.Time

	// leaving is canceled when the fleet decides to remove the instance, and ctx when the
	// instance is stopped. ended is closed after it has ended.
	leaving context.Context
	leave   context.CancelFunc
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}

	mu sync.Mutex
	// child is the running process, or nil if there is none.
	child *child
	port  int
	// location is replaced but never modified, because readings share it.
	location targets.Location
	ready    bool
	// changed is the time of the last change of ready.
	changed time.Time
	last    failure
}

// idLetters contains the characters of an ID's suffix. It lacks vowels so that IDs do not contain
// words.
const idLetters = "bcdfghjklmnpqrstvwxz2456789"

func newInstance(service string, index int, config Service, launcher *launcher, output func(service, instance string) io.Writer) *instance {
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = idLetters[rand.IntN(len(idLetters))]
	}
	name := service + "-" + strconv.Itoa(index)
	i := &instance{
		id: name + "-" + string(suffix), index: index, name: name, service: service, config: config, launcher: launcher,
		created: time.Now(), ended: make(chan struct{}),
	}
	i.changed, i.location = i.created, i.locate(0)
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.leaving, i.leave = context.WithCancel(i.ctx)
	var to io.Writer
	if output != nil {
		to = output(service, i.id)
	}
	i.out = newLines(to)
	return i
}

// stop sends the signal before it returns, so that instances are stopped in the order of the
// calls.
func (i *instance) stop() {
	i.cancel()
	i.mu.Lock()
	child := i.child
	i.mu.Unlock()
	if child != nil {
		child.terminate()
	}
}

// run starts and restarts the process until the instance leaves.
func (i *instance) run() {
	defer i.out.close()
	if ports, err := parsePorts(i.config.Ports); err == nil && ports.count() > 0 {
		port, err := i.launcher.takePort(i.leaving, ports)
		if err != nil {
			return
		}
		defer i.launcher.freePort(port)
		i.mu.Lock()
		i.port, i.location = port, i.locate(port)
		i.mu.Unlock()
	}
	backoff := restart.Backoff{First: i.config.RestartBackoffMin, Longest: i.config.RestartBackoffMax, Reset: i.config.RestartBackoffMax}
	var state restart.State
	for i.leaving.Err() == nil {
		started := time.Now()
		err := i.runOnce()
		if i.leaving.Err() != nil {
			return
		}
		state = backoff.Failed(state, time.Since(started), time.Now())
		i.setFailed(err, state.Starts+1)
		i.out.printf("%s: %s; restarting in %v", i.name, describe(err), state.Wait)
		select {
		case <-time.After(state.Wait):
		case <-i.leaving.Done():
		}
		state = backoff.Started(state, time.Now())
	}
}

// runOnce starts a process, waits until it ends, and returns its error.
func (i *instance) runOnce() error {
	child, err := i.launcher.start(i.command())
	if err != nil {
		return err
	}
	i.setChild(child)
	probing, stopProbing := context.WithCancel(i.ctx)
	var probe sync.WaitGroup
	if i.config.Readiness.probes() {
		probe.Go(func() { i.config.Readiness.watch(probing, i.port, i.setReady) })
	}
	select {
	case <-child.exited:
	case <-i.ctx.Done():
		child.stop(i.config.StopGracePeriod)
	}
	stopProbing()
	probe.Wait()
	return child.err
}

func (i *instance) command() *exec.Cmd {
	cmd := exec.Command(i.config.Command[0], slices.Concat(i.config.Command[1:], i.config.Args)...)
	cmd.Dir = i.config.Dir
	cmd.Env = i.environment()
	if !i.out.discards() {
		cmd.Stdout, cmd.Stderr = i.out, i.out
	}
	return cmd
}

// excludedVariables lists variables of hpad's own environment that instances do not inherit.
var excludedVariables = []string{
	"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID",
	"MAINPID", "MANAGERPID", "SYSTEMD_EXEC_PID", "CREDENTIALS_DIRECTORY",
}

// environment returns hpad's environment without the excluded variables, plus the configured
// variables and those that identify the instance.
func (i *instance) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(excludedVariables, name) || name == "HPAD_PORT"
	})
	for name, value := range i.config.Env {
		env = append(env, name+"="+value)
	}
	env = append(env, "HPAD_SERVICE="+i.service, "HPAD_INDEX="+strconv.Itoa(i.index), "HPAD_INSTANCE="+i.id)
	if i.port != 0 {
		env = append(env, "HPAD_PORT="+strconv.Itoa(i.port))
	}
	return env
}

func (i *instance) setChild(child *child) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.child = child
	if !i.config.Readiness.probes() {
		i.ready, i.changed = true, child.started
	}
}

func (i *instance) setReady(ready bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ready, i.changed = ready, time.Now()
}

// setFailed records that a process has ended. times is the number of consecutive failures.
func (i *instance) setFailed(err error, times int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	text := describe(err)
	i.last = failure{text: text, started: i.child != nil, times: times}
	i.child = nil
	if i.ready {
		i.ready, i.changed = false, time.Now()
	}
}

func (i *instance) read() (policy.Instance, targets.Location) {
	i.mu.Lock()
	defer i.mu.Unlock()
	observed := policy.Instance{
		ID: i.id, Phase: policy.PhasePending, Readiness: policy.ReadinessFalse,
		Deleting: i.leaving.Err() != nil, StartedAt: i.created, ReadinessChanged: i.changed,
	}
	if i.child != nil {
		observed.Phase = policy.PhaseRunning
		if i.ready {
			observed.Readiness = policy.ReadinessTrue
		}
	}
	return observed, i.location
}

// locate returns the location of the instance. Port 0 means that it has no port.
func (i *instance) locate(port int) targets.Location {
	location := targets.Location{
		Name: i.name, Node: proc.Hostname(), Addresses: []string{"127.0.0.1"},
		Labels: map[string]string{"service": i.service, "index": strconv.Itoa(i.index)},
	}
	if port != 0 {
		location.Ports = targets.Ports{{Number: port}}
	}
	return location
}

// leader returns the process to sample, or 0 if there is none.
func (i *instance) leader() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.child == nil || i.leaving.Err() != nil {
		return 0
	}
	return i.child.pid()
}
