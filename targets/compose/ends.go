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

// The engine does not record why a container ended. A container that an operator stopped has
// the exit code of the stop signal or 0, or it did not restart although its restart policy applies.
// If a program exits with a different code after a signal, only the engine's events show that it
// did not fail. They also show whether a program was killed by a request to the engine.

// end classifies the end of a container's last run.
type end int

const (
	// endNone means that the container is running, is about to run, or has never run.
	endNone end = iota
	// endStopped means that the container was stopped.
	endStopped
	// endFailed means that the container failed, ran out of memory or could not be started, and
	// that the engine does not restart it.
	endFailed
)

// endOf classifies the end of a container using only its inspection.
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

// restarts reports whether the engine restarts a container that exits on its own.
func restarts(p container.RestartPolicy, exitCode, count int) bool {
	if p.IsOnFailure() {
		return exitCode != 0 && (p.MaximumRetryCount == 0 || count < p.MaximumRetryCount)
	}
	return p.IsAlways() || p.IsUnlessStopped()
}

// stopCodes returns the exit codes of a stopped or killed container. signal is the container's
// stop signal.
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

// endOf classifies the end of a container, taking into account the signals in the engine's
// events. signalled reports whether there was a signal. pending reports that events may still
// be missing, so that the container is considered stopped for now.
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
	f.mu.Lock()
	asked, ended, unasked, pending := f.follower.end(c.ID, since, finished)
	f.mu.Unlock()
	switch {
	case pending && !ended:
		return endStopped, false, true
	case how == endFailed && asked:
		return endStopped, true, false
	case killed && unasked:
		// The container was not killed through the engine, so the kernel killed it, usually
		// because it ran out of memory. On a busy host, Engine 20.10 does not report about 3%
		// of these kills as out of memory.
		how = endFailed
	}
	return how, false, pending
}

// killedCode is the exit code after SIGKILL.
const killedCode = 128 + int(syscall.SIGKILL)

// stoppedHold returns the hold of a service that was stopped, but not by hpad: no container of
// its replica count is running or about to run, and the container that ended last was stopped.
// It returns nil for other services, and if respect_stopped is false.
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
		Message: fmt.Sprintf("service %q of project %q was stopped, but not by hpad; hpad continues once one of its containers runs, for example after \"docker compose start %s\"; if the containers exit on their own, set respect_stopped = false",
			k.service, k.project, k.service),
	}
}
