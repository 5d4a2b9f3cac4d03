package targettest

import (
	"context"
	"fmt"
	"time"

	"github.com/hpad/hpad/targets"
)

// Call identifies a method of Memory.
type Call uint8

// The calls. The zero value is AnyCall.
const (
	AnyCall Call = iota
	SnapshotCall
	WriteCall
	SamplesCall
)

// Fault makes calls of a Memory fail. Its effects occur in the order of the fields.
type Fault struct {
	// Call and Target select the affected calls; AnyCall and "" match any. Target matches Snapshot
	// and Samples calls that include the target.
	Call   Call
	Target string
	// Times is the number of calls that the fault affects; 0 means no limit.
	Times int

	// Panic is the value that the call panics with; nil means no panic.
	Panic any
	// Block blocks the call until the channel is closed, regardless of the context, like a fleet
	// that ignores its deadline.
	Block <-chan struct{}
	// Delay blocks the call for this duration, or until its context ends.
	Delay time.Duration
	// Hang blocks the call until its context ends. A write that hangs has no effect and returns
	// targets.ErrUnknownOutcome together with the context's error.
	Hang bool
	// Rival is called before the version of a write is compared, and simulates a concurrent
	// external writer. It may call the Memory. Nil means that there is no external writer.
	Rival func()
	// Err is returned instead of executing the call.
	Err error
	// Lost executes the write and returns targets.ErrUnknownOutcome.
	Lost bool
	// Reach stops a write at this count and returns a targets.PartialError; nil means no limit.
	Reach *int32
}

// fault is an injected Fault with the number of calls that it still affects.
type fault struct {
	Fault
	left int
}

// Inject adds a fault. If several faults match a call, the one added first applies. The returned
// function removes the fault and may be called more than once.
func (m *Memory) Inject(f Fault) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	injected := &fault{Fault: f, left: f.Times}
	m.faults = append(m.faults, injected)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.drop(injected)
	}
}

// takeLocked returns the fault that matches a call, or nil.
func (m *Memory) takeLocked(call Call, refs []targets.Ref) *fault {
	for _, f := range m.faults {
		if f.Call != AnyCall && f.Call != call || !f.meets(refs) {
			continue
		}
		if f.Times > 0 {
			f.left--
			if f.left == 0 {
				m.drop(f)
			}
		}
		return f
	}
	return nil
}

func (m *Memory) drop(gone *fault) {
	remaining := make([]*fault, 0, len(m.faults))
	for _, f := range m.faults {
		if f != gone {
			remaining = append(remaining, f)
		}
	}
	m.faults = remaining
}

func (f *fault) meets(refs []targets.Ref) bool {
	if f.Target == "" {
		return true
	}
	for _, ref := range refs {
		if ref.Name == f.Target {
			return true
		}
	}
	return false
}

// apply blocks a call as its fault specifies and returns the error that ends the call, or nil if
// the call continues. A nil fault only checks the context.
func (f *fault) apply(ctx context.Context) error {
	if f == nil {
		return ctx.Err()
	}
	if f.Panic != nil {
		panic(f.Panic)
	}
	if f.Block != nil {
		<-f.Block
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if f.Hang {
		<-ctx.Done()
		return fmt.Errorf("%w: no response: %w", targets.ErrUnknownOutcome, ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.Rival != nil {
		f.Rival()
	}
	return f.Err
}
