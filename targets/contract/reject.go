package contract

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hpad/hpad/targets"
)

// rejected writes a count, which must fail with an error of the given class and leave the count
// unchanged.
func (f *fleet[T]) rejected(ref targets.Ref, n int32, version string, class error) {
	f.t.Helper()
	_ = f.rejection(ref, n, version, class) // rejection checks the class
}

// rejection is like rejected and returns the error.
func (f *fleet[T]) rejection(ref targets.Ref, n int32, version string, class error) error {
	f.t.Helper()
	before := f.read(ref)
	err := f.SetReplicas(f.t.Context(), ref, n, version, "contract suite")
	if !errors.Is(err, class) {
		f.t.Fatalf("SetReplicas(%s, %d) at version %q = %v, want %q", ref, n, version, err, class)
	}
	after := f.read(ref)
	if after.SpecReplicas != before.SpecReplicas || after.StatusReplicas != before.StatusReplicas {
		f.t.Errorf("a rejected write changed the spec from %d to %d and the status from %d to %d",
			before.SpecReplicas, after.SpecReplicas, before.StatusReplicas, after.StatusReplicas)
	}
	return err
}

func rejectsOutdatedVersion[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 2)
	if before.Version == "" {
		t.Fatal("the reading has no version, so no write can be rejected because of an outdated version")
	}
	f.scale(t.Refs[0], 3)
	f.settle(t.Refs[0], 3)
	f.rejected(t.Refs[0], 4, before.Version, targets.ErrConflict)
	if t.SetCount != nil {
		version := f.read(t.Refs[0]).Version
		t.SetCount(t.T, t.Refs[0], 2)
		f.settle(t.Refs[0], 2)
		f.rejected(t.Refs[0], 4, version, targets.ErrConflict)
	}
	f.settle(t.Refs[0], f.read(t.Refs[0]).SpecReplicas)
	f.scale(t.Refs[0], 1)
	f.settle(t.Refs[0], 1)
}

func rejectsUnknown[T TB](t *trial[T]) {
	f := t.open()
	if err := f.SetReplicas(t.Context(), t.Missing, 1, "", "contract suite"); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("SetReplicas(%s) = %v, want ErrTargetNotFound", t.Missing, err)
	}
}

func rejectsDuringHold[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 2)
	t.Hold(t.T, t.Refs[0], true)
	t.poll("hold", func() (string, bool) {
		return "the reading has no hold", f.read(t.Refs[0]).Hold != nil
	})
	hold := f.read(t.Refs[0]).Hold
	if hold.Reason == "" || hold.Message == "" {
		t.Errorf("hold %+v lacks a reason or a message", hold)
	}
	err := f.rejection(t.Refs[0], 3, f.read(t.Refs[0]).Version, targets.ErrHeld)
	var held *targets.HeldError
	if !errors.As(err, &held) || held.Hold.Reason == "" {
		t.Errorf("SetReplicas() while held = %v, want a HeldError with a reason", err)
	}
	t.Hold(t.T, t.Refs[0], false)
	t.poll("end of the hold", func() (string, bool) {
		return "the reading still has a hold", f.read(t.Refs[0]).Hold == nil
	})
	f.scale(t.Refs[0], 3)
	f.settle(t.Refs[0], 3)
}

func rejectsOutOfRange[T TB](t *trial[T]) {
	highest := max(t.Highest, 3)
	t.Bound(t.T, t.Refs[0], highest)
	f := t.open()
	reading := f.settle(t.Refs[0], 2)
	if !t.HiddenBound && (reading.Max == nil || *reading.Max != highest) {
		t.Fatalf("reading.Max = %v, want %d", reading.Max, highest)
	}
	err := f.rejection(t.Refs[0], highest+1, reading.Version, targets.ErrOutOfRange)
	var bounds *targets.OutOfRangeError
	if !errors.As(err, &bounds) || !t.HiddenBound && (bounds.Max == nil || *bounds.Max != highest) {
		t.Errorf("SetReplicas() above the bound = %v, want an OutOfRangeError with Max %d", err, highest)
	}
	f.scale(t.Refs[0], highest)
	f.settle(t.Refs[0], highest)
}

func rejectsNegative[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 1)
	f.rejected(t.Refs[0], -1, "", targets.ErrOutOfRange)
}

func reportsPartialWrite[T TB](t *trial[T]) {
	f := t.open()
	version := f.settle(t.Refs[0], 1).Version
	t.Reach(t.T, t.Refs[0], 2)
	err := f.SetReplicas(t.Context(), t.Refs[0], 4, version, "contract suite")
	var partial *targets.PartialError
	if !errors.As(err, &partial) || partial.Reached != 2 {
		t.Fatalf("SetReplicas() with capacity for 2 of 4 replicas = %v, want a PartialError", err)
	}
	f.settle(t.Refs[0], 2)
}

func reportsThrottling[T TB](t *trial[T]) {
	f := t.open()
	version := f.settle(t.Refs[0], 2).Version
	t.Throttle(t.T, true)
	if _, err := f.Snapshot(t.Context(), t.Refs); !errors.Is(err, targets.ErrThrottled) {
		t.Errorf("Snapshot() while throttled = %v, want ErrThrottled", err)
	}
	if err := f.SetReplicas(t.Context(), t.Refs[0], 3, version, "contract suite"); !errors.Is(err, targets.ErrThrottled) {
		t.Errorf("SetReplicas() while throttled = %v, want ErrThrottled", err)
	}
	t.Throttle(t.T, false)
	t.awaitRecovery(f)
	f.settle(t.Refs[0], 2)
}

func reportsUnreachable[T TB](t *trial[T]) {
	f := t.open()
	version := f.settle(t.Refs[0], 2).Version
	t.Unreachable(t.T, true)
	if readings, err := f.Snapshot(t.Context(), t.Refs); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Snapshot() of an unreachable platform = %v, %v, want ErrTransient", readings, err)
	}
	err := f.SetReplicas(t.Context(), t.Refs[0], 3, version, "contract suite")
	if !errors.Is(err, targets.ErrTransient) && !errors.Is(err, targets.ErrUnknownOutcome) {
		t.Errorf("SetReplicas() of an unreachable platform = %v, want ErrTransient or ErrUnknownOutcome", err)
	}
	t.Unreachable(t.T, false)
	t.awaitRecovery(f)
	f.settle(t.Refs[0], 2)
}

// awaitRecovery waits until reads succeed again, because a fleet may back off.
func (t *trial[T]) awaitRecovery(f *fleet[T]) {
	t.Helper()
	t.poll("answer", func() (string, bool) {
		_, err := f.Snapshot(t.Context(), t.Refs)
		return fmt.Sprintf("Snapshot() = %v", err), err == nil
	})
}

func respectsCancel[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Snapshot(ctx, t.Refs); !errors.Is(err, context.Canceled) {
		t.Errorf("Snapshot() with a canceled context = %v, want context.Canceled", err)
	}
	if err := f.SetReplicas(ctx, t.Refs[0], 3, before.Version, "canceled"); !errors.Is(err, context.Canceled) {
		t.Errorf("SetReplicas() with a canceled context = %v, want context.Canceled", err)
	}
	if after := f.settle(t.Refs[0], 2); after.Version != before.Version {
		t.Errorf("a canceled write changed version %q to %q", before.Version, after.Version)
	}
}

func respectsDeadline[T TB](t *trial[T]) {
	f := t.open()
	version := f.settle(t.Refs[0], 2).Version
	t.Hang(t.T, true)
	for name, call := range map[string]func(ctx context.Context) error{
		"Snapshot": func(ctx context.Context) error {
			_, err := f.Snapshot(ctx, t.Refs)
			return err
		},
		"SetReplicas": func(ctx context.Context) error {
			err := f.SetReplicas(ctx, t.Refs[0], 3, version, "contract suite")
			if !errors.Is(err, targets.ErrUnknownOutcome) {
				t.Errorf("SetReplicas() without a response = %v, want ErrUnknownOutcome in addition to the context's error", err)
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		begun := time.Now()
		err := call(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s() without a response = %v, want context.DeadlineExceeded", name, err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("%s() with a 50ms deadline took %v", name, took)
		}
	}
	t.Hang(t.T, false)
	t.awaitRecovery(f)
}
