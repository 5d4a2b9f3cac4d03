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

// The engine does not keep who ended a container. A person who stops one leaves it with
// the code of its signal or with 0, or with a restart policy by which it would run
// again. Where a program ends with another code by a signal, the engine's events show
// that it is no failure, as long as it has them; and where one was killed, that nobody
// asked the engine for it.

// end is how the last run of a container ended.
type end int

const (
	// endNone: it runs, is about to, or never did.
	endNone end = iota
	// endStopped: somebody stopped it, as far as can be seen.
	endStopped
	// endFailed: it ended with an error by itself, ran out of memory or could not be
	// started, and the engine leaves it at that.
	endFailed
)

// endOf returns how a container ended, from what the engine says of it.
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

// restarts reports whether the engine starts a container again that ended by itself.
func restarts(p container.RestartPolicy, exitCode, count int) bool {
	if p.IsOnFailure() {
		return exitCode != 0 && (p.MaximumRetryCount == 0 || count < p.MaximumRetryCount)
	}
	return p.IsAlways() || p.IsUnlessStopped()
}

// stopCodes are the exit codes of a container that was stopped or killed, with its
// own signal where it names one.
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

// endOf classifies the end of a container, with the signals among the engine's events.
// signalled reports that there was one; pending reports that events may be missing, so that
// the container counts as stopped for now.
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
		// Nobody asked the engine for it: the kernel killed it, for memory in most cases.
		// Engine 20.10 loses one such notice in thirty when its machine is busy.
		return endFailed, false, false
	}
	return how, false, false
}

// killedCode is the exit code of a program that got SIGKILL.
const killedCode = 128 + int(syscall.SIGKILL)

// stoppedHold returns the hold of a service that an external writer has stopped: no
// container of its count runs or is about to, and the one that ended last was stopped. It is
// nil for other services, and with hold_stopped = false.
func (f *Fleet) stoppedHold(k key, living []*member, known map[string]*detail) *policy.Hold {
	if !*cmp.Or(f.config.Services[k.String()].HoldStopped, f.config.HoldStopped) {
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
		Message: fmt.Sprintf("service %q of project %q was stopped, and not by hpad; hpad continues once one of its containers runs, for example after \"docker compose start %s\"; if the containers end by themselves, set hold_stopped = false",
			k.service, k.project, k.service),
	}
}
