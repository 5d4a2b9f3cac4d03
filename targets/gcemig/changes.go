package gcemig

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/cloud"
)

// changeFailed is the condition of a group whose last change was accepted and did
// not happen.
const changeFailed policy.ConditionType = "ChangeFailed"

// changes are those that hpad made, by the names of targets, and what became of them.
// The zero value knows none; it is safe for concurrent use.
type changes struct {
	mu       sync.Mutex
	last     map[string]change
	failures cloud.Failures[string]
	// requests are the ids of writes whose outcome is not known.
	requests map[decision]request
}

// change is the last one of a target.
type change struct {
	// version is the one that it was made from, at written.
	version string
	written time.Time
	// operation is its name while it is under way.
	operation string
}

func (c *changes) of(target string) change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[target]
}

func (c *changes) set(target string, set func(last *change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]change{}
	}
	last := c.last[target]
	set(&last)
	c.last[target] = last
}

// shownFor is how long the failure of a change is shown.
const shownFor = 15 * time.Minute

// wrote remembers from which version a target is changed, in place of what was known of
// other changes.
func (c *changes) wrote(d decision, now time.Time) {
	c.failures.Clear(d.target)
	c.set(d.target, func(last *change) { *last = change{version: d.version, written: now} })
}

// begun remembers that an operation is under way.
func (c *changes) begun(target, operation string) {
	c.set(target, func(last *change) { last.operation = operation })
}

// ended remembers how the operation on a target ended; a nil error means well.
func (c *changes) ended(target string, err error, now time.Time) {
	c.set(target, func(last *change) { last.operation = "" })
	if err != nil {
		c.failures.Record(target, policy.Notice{
			Condition: changeFailed, Reason: ChangeFailed, Message: "the last change was accepted and failed: " + err.Error(),
		}, now.Add(shownFor))
	}
}

// doubtedFor is how long a list is not believed that shows a group as it was before
// hpad changed it: lists may lag behind.
const doubtedFor = time.Minute

// doubted reports whether a target was changed a moment ago from the version that a
// list shows of it.
func (c *changes) doubted(target, version string, now time.Time) bool {
	last := c.of(target)
	return last.version == version && now.Sub(last.written) <= doubtedFor
}

// settle reads a target's operation, if one is under way.
func (f *Fleet) settle(ctx context.Context, s *session, t *Target) {
	operation := f.changes.of(t.Name()).operation
	if operation == "" {
		return
	}
	found, err := s.follow(ctx, t, operation) // an error is for the next round
	if err == nil && found.Status == operationDone {
		f.changes.ended(t.Name(), operationError(found), time.Now())
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

// requestOf returns the id of a decision: that of the same decision while nobody
// knows what became of it, else a new one.
func (c *changes) requestOf(d decision, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.requests, func(_ decision, sent request) bool { return now.Sub(sent.at) > requestKept })
	if c.requests == nil {
		c.requests = map[decision]request{}
	}
	if _, ok := c.requests[d]; !ok {
		c.requests[d] = request{id: uuid.NewString(), at: now}
	}
	return c.requests[d].id
}

// forget gives up the ids of all decisions on a target: the next ones are others.
func (c *changes) forget(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.requests, func(d decision, _ request) bool { return d.target == target })
}
