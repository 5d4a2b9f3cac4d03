package gcemig

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/hpad/hpad/policy"
)

// changeFailed is the condition of a group whose last change was accepted and did
// not happen.
const changeFailed policy.ConditionType = "ChangeFailed"

// changes are those of the fleet whose end is not known yet, and what became of
// them. The zero value knows none; it is safe for concurrent use.
type changes struct {
	mu sync.Mutex
	// operations are under way, failed are the notices of those that failed, by the
	// names of targets.
	operations map[string]string
	failed     map[string]failedChange
	// requests are the ids of writes whose outcome is not known.
	requests map[decision]request
	// written are the last changes of targets.
	written map[string]written
}

// written is a change of a target, from a version.
type written struct {
	version string
	at      time.Time
}

type failedChange struct {
	notice policy.Notice
	at     time.Time
}

// shownFor is how long the failure of a change is shown.
const shownFor = 15 * time.Minute

func (c *changes) pending(target string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.operations[target] != ""
}

func (c *changes) notice(target string, now time.Time) *policy.Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed, ok := c.failed[target]
	if !ok || now.Sub(failed.at) > shownFor {
		delete(c.failed, target)
		return nil
	}
	return &failed.notice
}

// begun remembers an operation on a target, in place of what was known of others;
// "" says that none is under way.
func (c *changes) begun(target, operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operations == nil {
		c.operations, c.failed = map[string]string{}, map[string]failedChange{}
	}
	delete(c.failed, target)
	if operation == "" {
		delete(c.operations, target)
		return
	}
	c.operations[target] = operation
}

// ended remembers how the operation on a target ended; a nil error says well.
func (c *changes) ended(target string, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.operations, target)
	if err == nil {
		return
	}
	c.failed[target] = failedChange{at: now, notice: policy.Notice{
		Condition: changeFailed, Reason: ChangeFailed, Message: "the last change was accepted and failed: " + err.Error(),
	}}
}

// settle asks how a target's operation is doing.
func (f *Fleet) settle(ctx context.Context, s *session, t *Target) {
	name := t.Name()
	f.changes.mu.Lock()
	operation := f.changes.operations[name]
	f.changes.mu.Unlock()
	if operation == "" {
		return
	}
	found, err := s.follow(ctx, t, operation)
	if err != nil {
		return // it is asked again in the next round
	}
	if found.Status == operationDone {
		f.changes.ended(name, operationError(found), time.Now())
	}
}

// decision is one change that hpad wants.
type decision struct{ target, version, to string }

// request is the id under which a decision was sent.
type request struct {
	id string
	at time.Time
}

// requestKept is how long a decision whose outcome is not known is sent under the
// same id: long enough for what is still on its way, and shorter than it takes a
// person to put the size back.
const requestKept = 2 * time.Minute

// requestOf answers the id of a decision: that of the same decision while nobody
// knows what became of it, else a new one.
func (c *changes) requestOf(d decision, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests = map[decision]request{}
	}
	for old, sent := range c.requests {
		if now.Sub(sent.at) > requestKept {
			delete(c.requests, old)
		}
	}
	sent, ok := c.requests[d]
	if !ok {
		sent = request{id: uuid.NewString(), at: now}
		c.requests[d] = sent
	}
	return sent.id
}

// forget gives up the ids of all decisions on a target: the next ones are others.
func (c *changes) forget(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for d := range c.requests {
		if d.target == target {
			delete(c.requests, d)
		}
	}
}

// doubtedFor is how long a list is not believed that shows a group as it was before
// hpad changed it: lists may lag behind.
const doubtedFor = time.Minute

// wrote remembers from which version a target was changed.
func (c *changes) wrote(d decision, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = map[string]written{}
	}
	c.written[d.target] = written{version: d.version, at: now}
}

// doubted says that a target was changed a moment ago from the version that a list
// shows of it.
func (c *changes) doubted(target, version string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.written[target]
	if ok && now.Sub(last.at) > doubtedFor {
		delete(c.written, target)
		return false
	}
	return ok && last.version == version
}
