package azurevmss

import (
	"fmt"
	"regexp"
	"sync"
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

// troubles are why sets lack machines, as far as the platform said. They are safe
// for concurrent use; the zero value knows of none.
type troubles struct {
	mu    sync.Mutex
	known map[key]trouble
}

// trouble is one failure.
type trouble struct {
	notice policy.Notice
	// until is how long it is shown at least; longer as long as the set lacks machines.
	until time.Time
}

// record remembers why a set lacks machines.
func (t *troubles) record(k key, notice policy.Notice, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[key]trouble{}
	}
	t.known[k] = trouble{notice: notice, until: now.Add(troubleAge)}
}

// clear forgets why a set lacked machines.
func (t *troubles) clear(k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, k)
}

// notices returns what is shown of a set that lacks machines, or does not.
func (t *troubles) notices(k key, short bool, now time.Time) []policy.Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[k]
	if !ok {
		return nil
	}
	if !short && now.After(known.until) {
		delete(t.known, k)
		return nil
	}
	return []policy.Notice{known.notice}
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
