package process

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// ProcessesFailing means that processes cannot be started, or exit on their own and are
// restarted.
const ProcessesFailing policy.ConditionType = "ProcessesFailing"

// The reasons for ProcessesFailing.
const (
	processNotStarted = "ProcessNotStarted"
	// processRestarting means that a process exited on its own, and is being restarted or was
	// restarted recently.
	processRestarting = "ProcessRestarting"
)

// failure is the last failure of an instance.
type failure struct {
	// text is empty if there was no failure.
	text string
	// started reports whether a process was started. times is the number of consecutive
	// failures.
	started bool
	times   int
}

// lastFailure returns the last failure, or the zero failure if the process has since run long
// enough to reset the back-off.
func (i *instance) lastFailure(now time.Time) failure {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.child != nil && now.Sub(i.child.started) > i.config.RestartBackoffMax {
		return failure{}
	}
	return i.last
}

// notice returns a notice if processes fail. Before Start, it returns a notice if the program
// cannot be started. The caller must hold mu.
func (s *service) notice(now time.Time) *policy.Notice {
	if s.launcher == nil {
		if problem := s.config.check(); problem != "" {
			return &policy.Notice{Condition: ProcessesFailing, Reason: processNotStarted, Message: fmt.Sprintf("service %q cannot be started: %s", s.name, problem)}
		}
		return nil
	}
	failing, most, reason := 0, 0, processRestarting
	var causes []string
	names := map[string][]string{}
	for _, i := range s.current {
		found := i.lastFailure(now)
		if found.text == "" {
			continue
		}
		failing, most = failing+1, max(most, found.times)
		if !found.started {
			reason = processNotStarted
		}
		if names[found.text] == nil {
			causes = append(causes, found.text)
		}
		names[found.text] = append(names[found.text], i.name)
	}
	if failing == 0 {
		return nil
	}
	for i, cause := range causes {
		causes[i] = targets.FirstThree(names[cause], ", ") + ": " + cause
	}
	message := fmt.Sprintf("%d of %d processes fail", failing, len(s.current))
	if most > 1 {
		message += fmt.Sprintf(", up to %d times in a row", most)
	}
	return &policy.Notice{Condition: ProcessesFailing, Reason: reason, Message: message + ": " + targets.FirstThree(causes, "; ")}
}
