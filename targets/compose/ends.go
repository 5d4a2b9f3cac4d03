package compose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/policy"
)

// The engine does not record the reason for the end of a container. A container that an operator
// stops exits with the code of its signal or with 0, or has a restart policy that would have
// restarted it. If a program exits with another code after a signal, the engine's events show
// that it is not a failure. They also show whether a killed program was killed by a request to
// the engine.

// end is the kind of the end of a container's last run.
type end int

const (
	// endNone: it runs, is about to run, or has never run.
	endNone end = iota
	// endStopped: it was stopped.
	endStopped
	// endFailed: it failed, ran out of memory or could not be started, and the engine does not
	// restart it.
	endFailed
)

// endOf classifies the end of a container by its inspection alone.
func endOf(c *container.InspectResponse) end {
	switch {
	case c.State.Status != container.StateExited:
		return endNone
	case c.State.Error != "": // it could not be started
		return endFailed
	case restarts(c.HostConfig.RestartPolicy, c.State.ExitCode, c.RestartCount):
		return endStopped
	case c.State.OOMKilled || !slices.Contains(stopCodes(c.Config.StopSignal), c.State.ExitCode):
		return endFailed
	}
	return endStopped
}

// restarts reports whether the engine restarts a container that ended by itself.
func restarts(p container.RestartPolicy, exitCode, count int) bool {
	if p.IsOnFailure() {
		return exitCode != 0 && (p.MaximumRetryCount == 0 || count < p.MaximumRetryCount)
	}
	return p.IsAlways() || p.IsUnlessStopped()
}

// stopCodes returns the exit codes of a stopped or killed container. The signal is the
// container's own stop signal.
func stopCodes(signal string) []int {
	codes := []int{0, killedCode, 128 + int(syscall.SIGTERM)}
	number, err := strconv.Atoi(signal)
	if err != nil {
		number = int(unix.SignalNum(signal))
	}
	if number > 0 {
		codes = append(codes, 128+number)
	}
	return codes
}

// endOf classifies the end of a container, with the signals in the engine's events. signalled
// reports that there was one; pending reports that events may be missing, so that the container
// counts as stopped for now.
func (f *Fleet) endOf(m *member, c *container.InspectResponse) (how end, signalled, pending bool) {
	how = endOf(c)
	killed := how == endStopped && c.State.ExitCode == killedCode && !restarts(c.HostConfig.RestartPolicy, c.State.ExitCode, c.RestartCount)
	finished := parseTime(c.State.FinishedAt)
	switch {
	case how != endFailed && !killed, c.State.Error != "", finished.IsZero():
		return how, false, false
	case how == endFailed && f.store.of(m.key).Instances[m.ID].Stopped.Equal(finished):
		return endStopped, true, false
	}
	grace := stopAge
	if seconds := c.Config.StopTimeout; seconds != nil {
		grace = max(grace, time.Duration(*seconds)*time.Second)
	}
	since := finished.Add(-grace)
	if started := parseTime(c.State.StartedAt); started.After(since) && !started.After(finished) {
		since = started
	}
	asked, ended, pending := f.follower.end(c.ID, since, finished)
	switch {
	case pending:
		return endStopped, false, true
	case how == endFailed && asked:
		return endStopped, true, false
	case killed && ended && !asked:
		// Not killed through the engine: the kernel killed it, in most cases because of memory.
		// Engine 20.10 does not report one in thirty of these ends on a busy host.
		return endFailed, false, false
	}
	return how, false, false
}

// killedCode is the exit code after SIGKILL.
const killedCode = 128 + int(syscall.SIGKILL)

// stoppedHold returns the hold of a service that was stopped, and not by hpad: no container of
// its count runs or is about to run, and the one that ended last was stopped. It is nil for other
// services, and with respect_stopped = false.
func (f *Fleet) stoppedHold(k key, living []*member, known map[string]*detail) *policy.Hold {
	if !*cmp.Or(f.config.Services[k.String()].RespectStopped, f.config.RespectStopped) {
		return nil
	}
	var last *detail
	for _, m := range living {
		switch d := known[m.ID]; {
		case m.runs() || m.State == container.StateRestarting || d != nil && d.running:
			return nil
		case d != nil && d.end != endNone && (last == nil || d.finished.After(last.finished)):
			last = d
		}
	}
	if last == nil || last.end != endStopped {
		return nil
	}
	return &policy.Hold{
		Reason: ServiceStopped,
		Message: fmt.Sprintf("service %q of project %q was stopped, and not by hpad; hpad continues once one of its containers runs, for example after \"docker compose start %s\"; if the containers end by themselves, set respect_stopped = false",
			k.service, k.project, k.service),
	}
}
