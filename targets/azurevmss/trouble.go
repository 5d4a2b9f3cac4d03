package azurevmss

import (
	"fmt"
	"regexp"
	"time"

	"github.com/hpad/hpad/policy"
	platform "github.com/hpad/hpad/targets/cloud"
)

const (
	// ProvisioningFailed is the reason where the platform could not make machines and
	// gives no word of its own for it.
	ProvisioningFailed = "ProvisioningFailed"

	// troubleAge is how long a failed change is shown at least.
	troubleAge = 2 * time.Minute
)

// troubles are why sets lack machines, as far as the platform said: shown as long as
// they do, and troubleAge at least.
type troubles struct{ platform.Failures[key] }

// record remembers why a set lacks machines.
func (t *troubles) record(k key, notice policy.Notice, now time.Time) {
	t.Record(k, notice, now.Add(troubleAge))
}

// codeWord is what a condition's reason looks like.
var codeWord = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// shortage returns the notice of a failure in the platform's words.
func shortage(code, message string) policy.Notice {
	text := platform.OneLine(message)
	if text == "" {
		text = "azure does not say why"
	}
	reason := code
	if !codeWord.MatchString(code) {
		reason = ProvisioningFailed
	}
	if newAnswer(0, code, message).Says(sayingQuota...) {
		reason = QuotaExceeded
	}
	if code != "" {
		text = code + ": " + text
	}
	return policy.Notice{Condition: platform.InsufficientCapacity, Reason: reason, Message: text}
}

// failedMachines returns the notice of machines that could not be provisioned; nil
// when there is none.
func failedMachines(machines []*machine) *policy.Notice {
	failed := 0
	var first *machine
	for _, m := range machines {
		if m.member() && m.state == stateFailed {
			failed++
			if first == nil || first.failure.Code == "" {
				first = m
			}
		}
	}
	if first == nil {
		return nil
	}
	notice := shortage(first.failure.Code, first.failure.Message)
	notice.Message = fmt.Sprintf("%d machines could not be provisioned, as %s: %s", failed, first.name, notice.Message)
	return &notice
}
