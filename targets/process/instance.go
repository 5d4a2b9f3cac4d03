package process

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/proc"
	"github.com/hpad/hpad/targets/restart"
	"github.com/hpad/hpad/targets/rollout"
)

// instance is one instance of a service: a process that is restarted whenever it ends, until
// the instance is stopped.
type instance struct {
	id         string
	index      int
	name       string
	service    string
	config     Service
	definition string
	env        targets.Env
	launcher   *launcher
	out        *output
	created    time.Time

	// leaving is canceled when the fleet decides to remove the instance, and ctx when the
	// instance is stopped or detached. ended is closed after it has ended.
	leaving context.Context
	depart  context.CancelCauseFunc
	ctx     context.Context
	cancel  context.CancelCauseFunc
	ended   chan struct{}
	// changes has a value if the record must be written.
	changes chan struct{}
	// scale is called after the readiness has changed.
	scale func()
	// obsolete is set if the process has a definition that hpad does not know, so that it cannot be
	// restarted.
	obsolete bool

	mu sync.Mutex
	// child is the running process, or nil.
	child *child
	port  int
	// blocked reports whether the instance waits for a port.
	blocked bool
	// location is replaced but never modified, because readings share it.
	location targets.Location
	ready    bool
	// probed is the last result of the readiness probe of the process.
	probed probe.State
	// changed is the time of the last change of ready.
	changed time.Time
	last    failure
}

// The causes of the contexts of an instance.
var (
	errRemoved = errors.New("removed")
	// errDetached means that hpad exits while the process continues to run.
	errDetached = errors.New("detached")
)

// idLetters contains the characters of an ID's suffix. It lacks vowels so that IDs do not contain
// words.
const idLetters = "bcdfghjklmnpqrstvwxz2456789"

// newInstance returns a new instance with a current or old definition of the service. The caller
// must hold s.mu.
func newInstance(s *service, index int, config Service, definition string) *instance {
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = idLetters[rand.IntN(len(idLetters))]
	}
	now := time.Now()
	return adoptInstance(record{
		ID: s.name + "-" + strconv.Itoa(index) + "-" + string(suffix), Index: index, Created: now, Changed: now,
		Definition: definition, StopGracePeriod: config.StopGracePeriod, Readiness: config.Readiness,
	}, nil, s, config)
}

// adoptInstance returns the instance of a record with its running process, which may be nil. The
// instance is obsolete unless config has the record's definition. The caller must hold s.mu.
func adoptInstance(r record, process *child, s *service, config Service) *instance {
	i := &instance{
		id: r.ID, index: r.Index, name: s.name + "-" + strconv.Itoa(r.Index), service: s.name,
		config: config, definition: r.Definition, env: s.env, launcher: s.launcher,
		created: r.Created, ended: make(chan struct{}), changes: make(chan struct{}, 1),
		scale: s.scale, obsolete: r.settings() != config.definition(), child: process, port: r.Port, ready: r.Ready, changed: r.Changed,
	}
	i.config.StopGracePeriod, i.config.Readiness = r.StopGracePeriod, r.Readiness
	i.location = i.locate(r.Port)
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	i.leaving, i.depart = context.WithCancelCause(i.ctx)
	var to io.Writer
	if i.env.Output != nil {
		to = i.env.Output(i.service, i.id)
	}
	path := ""
	if i.env.OutputDir != "" {
		path = filepath.Join(i.env.OutputDir, i.service, i.id+".log")
	}
	i.out = openOutput(path, to, i.launcher)
	i.out.seek(r.Output)
	i.out.start = r.OutputStart
	i.launcher.relay.add(i.out)
	if process == nil {
		return i
	}
	i.recordChange() // r.Output is no longer valid
	i.launcher.reservePort(r.Port)
	if r.Leaving {
		i.depart(errRemoved)
	}
	return i
}

// leave makes the instance terminating. Its process continues to run, and is not restarted.
func (i *instance) leave() {
	i.depart(errRemoved)
	i.recordChange()
}

func (i *instance) recordChange() {
	select {
	case i.changes <- struct{}{}:
	default:
	}
}

// stop sends the signal before it returns, so that instances are stopped in the order of the
// calls.
func (i *instance) stop() {
	i.depart(errRemoved)
	i.cancel(errRemoved)
	i.mu.Lock()
	child := i.child
	i.mu.Unlock()
	if child != nil {
		child.terminate()
	}
}

// run starts and restarts the process until the fleet removes the instance.
func (i *instance) run() {
	defer i.finish()
	child := i.child // adopted
	defer func() { i.launcher.freePort(i.port) }()
	backoff := restart.Backoff{First: i.config.RestartBackoffMin, Longest: i.config.RestartBackoffMax, Reset: i.config.RestartBackoffMax}
	var state restart.State
	for child != nil || i.leaving.Err() == nil {
		if child == nil && i.choosePort() != nil {
			return // the instance was removed
		}
		started := time.Now()
		err := i.runOnce(child)
		child = nil
		if i.leaving.Err() != nil || i.obsolete {
			return
		}
		state = backoff.Failed(state, time.Since(started), time.Now())
		i.out.flush()
		i.setFailed(err, state.Starts+1)
		i.out.printf("%s: %s; restarting in %v", i.name, describe(err), state.Wait)
		select {
		case <-time.After(state.Wait):
		case <-i.leaving.Done():
		}
		state = backoff.Started(state, time.Now())
	}
}

// finish deletes the record and the output of an instance whose process has ended.
func (i *instance) finish() {
	i.mu.Lock()
	child := i.child
	i.mu.Unlock()
	if child != nil && errors.Is(context.Cause(i.ctx), errDetached) {
		i.save(i.out.detach())
		return
	}
	i.forget()
	i.out.remove()
}

// runOnce starts a process unless it is running, waits until it ends, and returns its error. It
// returns earlier if the instance is detached.
func (i *instance) runOnce(child *child) error {
	if child != nil {
		i.out.flush() // the collector may have ended with hpad
	} else {
		i.out.begin()
		i.save(unknownOffset)
		var err error
		if child, err = i.launcher.start(i.command(), i.env.Exiting == nil || i.config.StopWithHpad); err != nil {
			return proc.StartError(err, i.config.Command[0], i.config.Dir)
		}
		i.setChild(child)
		i.save(unknownOffset)
	}
	probing, stopProbing := context.WithCancel(i.ctx)
	var probes guard.Tasks
	if i.config.Readiness.probes() {
		probes.Go(func() {
			guard.Loop(probing, func() { i.config.Readiness.watch(probing, i.port, i.isReady(), i.setProbed) })
		})
	} else {
		settled := guard.AfterFunc(rollout.SettleTime, i.scale)
		defer settled.Stop()
	}
	defer probes.Wait()
	defer stopProbing()
	return i.watch(child)
}

// watch waits until a process has ended, and stops it when the instance is stopped.
func (i *instance) watch(child *child) error {
	stopped := i.ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case <-child.exited:
			return child.err
		case <-stopped:
			if errors.Is(context.Cause(i.ctx), errDetached) {
				child.release()
				return errDetached
			}
			child.terminate()
			stopped, kill = nil, time.After(i.config.StopGracePeriod)
		case <-kill:
			child.signal(syscall.SIGKILL)
		case <-i.changes:
			i.save(unknownOffset)
		}
	}
}

func (i *instance) command() *exec.Cmd {
	cmd := exec.Command(i.config.Command[0], slices.Concat(i.config.Command[1:], i.config.Args)...)
	cmd.Dir = i.config.Dir
	cmd.Env = i.environment()
	if fifo := i.out.writeEnd(); fifo != nil {
		cmd.Stdout, cmd.Stderr = fifo, fifo
	}
	return cmd
}

// environment returns hpad's environment without the variables that are intended only for hpad,
// plus the configured variables and those that identify the instance.
func (i *instance) environment() []string {
	env := slices.DeleteFunc(proc.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "CREDENTIALS_DIRECTORY=") || strings.HasPrefix(entry, "HPAD_PORT=")
	})
	for name, value := range i.config.Env {
		env = append(env, name+"="+value)
	}
	env = append(env, "HPAD_SERVICE="+i.service, "HPAD_INDEX="+strconv.Itoa(i.index), markerOf(i.id))
	if i.port != 0 {
		env = append(env, "HPAD_PORT="+strconv.Itoa(i.port))
	}
	if settings := i.config.startSettings(); len(settings) < maxSettings {
		env = append(env, settingsPrefix+string(settings))
	}
	return env
}

func (i *instance) setChild(child *child) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.child, i.probed = child, probe.State{}
	if !i.config.Readiness.probes() {
		i.ready, i.changed = true, child.started
	}
}

func (i *instance) isReady() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ready
}

// setProbed records the result of a readiness probe.
func (i *instance) setProbed(result probe.State) {
	i.mu.Lock()
	i.probed = result
	changed := i.ready != result.Ready
	if changed {
		i.ready, i.changed = result.Ready, time.Now()
	}
	i.mu.Unlock()
	if changed {
		i.recordChange()
		i.scale()
	}
}

// unreadyReason returns the reason why the instance is not ready. The caller must hold i.mu.
func (i *instance) unreadyReason() string {
	switch {
	case i.ctx.Err() != nil:
		return "stopping: waits for the process to end"
	case i.leaving.Err() != nil:
		return "draining: waits for drain_delay"
	case i.ready:
		return ""
	case i.child != nil:
		return i.probed.Reason()
	case i.last.text != "":
		return targets.Phrase("restarting: " + i.last.text)
	case i.blocked:
		return "waiting for a free port"
	}
	return "starting"
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
	failing := i.lastFailure(time.Now()).text != ""
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
	location := i.location
	location.Failing, location.UnreadyReason = failing, i.unreadyReason()
	return observed, location
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

// leader returns the process to sample, or 0.
func (i *instance) leader() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.child == nil || i.leaving.Err() != nil {
		return 0
	}
	return i.child.pid
}
