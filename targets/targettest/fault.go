package targettest

import (
	"context"
	"fmt"
	"time"

	"github.com/hpad/hpad/targets"
)

// Call names one of the calls to a Memory.
type Call uint8

// The calls. The zero value is AnyCall.
const (
	AnyCall Call = iota
	SnapshotCall
	WriteCall
	SamplesCall
)

// Fault is what a Memory does wrong. Its steps happen in the order of the
// fields.
type Fault struct {
	// Call and Target say which calls it meets; AnyCall and "" mean any. A
	// Target matches a Snapshot or Samples that asks for it among others.
	Call   Call
	Target string
	// Times is how many calls it meets before it is over; 0 means no limit.
	Times int

	// Panic is what the call panics with; nil means that it does not.
	Panic any
	// Block holds the call until it is closed, whatever the context says: the
	// adapter that ignores its deadline.
	Block <-chan struct{}
	// Delay holds the call that long, or until its context ends.
	Delay time.Duration
	// Hang holds the call until its context ends. A write that hangs returns
	// targets.ErrUnknownOutcome besides the context's error, and was not done.
	Hang bool
	// Rival acts before a write is compared with its version, as somebody else who
	// comes in between; it may call the Memory. Nil means that nobody does.
	Rival func()
	// Err is returned in place of doing anything.
	Err error
	// Lost does the write and returns targets.ErrUnknownOutcome.
	Lost bool
	// Reach stops a write at that count, with a targets.PartialError; nil means
	// that it does not.
	Reach *int32
}

// fault is an injected Fault and how often it still applies.
type fault struct {
	Fault
	left int
}

// Inject adds a fault; of several that meet a call the first added applies. The
// returned function takes it away again, and may be called more than once.
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

// takeLocked returns the fault that meets a call, and nil when there is none.
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
	kept := make([]*fault, 0, len(m.faults))
	for _, f := range m.faults {
		if f != gone {
			kept = append(kept, f)
		}
	}
	m.faults = kept
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

// suffer holds a call as its fault says and returns why it goes no further; nil
// means that it does. A nil fault holds nothing.
func (f *fault) suffer(ctx context.Context) error {
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
		return fmt.Errorf("%w: no answer: %w", targets.ErrUnknownOutcome, ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.Rival != nil {
		f.Rival()
	}
	return f.Err
}
