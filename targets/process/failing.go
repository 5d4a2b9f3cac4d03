package process

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// ProcessesFailing is the condition of a service with processes that cannot be started,
// or that end by themselves and are started again.
const ProcessesFailing policy.ConditionType = "ProcessesFailing"

// The reasons of ProcessesFailing.
const (
	// ProcessNotStarted: a program cannot be started.
	ProcessNotStarted = "ProcessNotStarted"
	// ProcessRestarting: a process ended by itself, and is started again, or was a moment
	// ago.
	ProcessRestarting = "ProcessRestarting"
)

// fault is how an instance came to have no process, as often as in a row.
type fault struct {
	// words are for a person; empty when nothing went wrong.
	words string
	// started reports whether there was a process.
	started bool
	times   int
}

// fault returns what went wrong with an instance; zero when nothing did, or when a process
// of it has run for longer since than would begin its back-off anew.
func (i *instance) fault(now time.Time) fault {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.child != nil && now.Sub(i.child.started) > i.config.RestartBackoffMax {
		return fault{}
	}
	return i.last
}

// notice returns that processes of a service fail; nil when none does. Of a service that
// was not started it is whether its program can be. It is called with mu held.
func (s *service) notice(now time.Time) *policy.Notice {
	if s.nursery == nil {
		if trouble := s.config.check(); trouble != "" {
			return &policy.Notice{Condition: ProcessesFailing, Reason: ProcessNotStarted, Message: fmt.Sprintf("service %q cannot be started: %s", s.name, trouble)}
		}
		return nil
	}
	failing, most, reason := 0, 0, ProcessRestarting
	var causes []string
	names := map[string][]string{}
	for _, i := range s.living {
		found := i.fault(now)
		if found.words == "" {
			continue
		}
		failing, most = failing+1, max(most, found.times)
		if !found.started {
			reason = ProcessNotStarted
		}
		if names[found.words] == nil {
			causes = append(causes, found.words)
		}
		names[found.words] = append(names[found.words], i.name)
	}
	if failing == 0 {
		return nil
	}
	for i, cause := range causes {
		causes[i] = targets.Some(names[cause], ", ") + ": " + cause
	}
	message := fmt.Sprintf("%d of %d processes fail", failing, len(s.living))
	if most > 1 {
		message += fmt.Sprintf(", up to %d times in a row", most)
	}
	return &policy.Notice{Condition: ProcessesFailing, Reason: reason, Message: message + ": " + targets.Some(causes, "; ")}
}
