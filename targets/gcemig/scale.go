package gcemig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// SetReplicas resizes a group, if its size is still that of version. It reads the
// group first: a size that it has already is not written again. A write that is
// repeated because its outcome is not known is the same one to Compute Engine.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	what := fmt.Sprintf("resize group %q of fleet %q to %d instances", ref.Name, f.base.Name, n)
	return f.base.Write(ctx, ref, what, func(ctx context.Context, t Target) error { return f.resize(ctx, &t, n, version) })
}

// Remove deletes instances of a group by their ids, which lowers its size by as
// many in the same call, if the size is still that of version. Instances that are
// gone, or on their way, are passed over.
func (f *Fleet) Remove(ctx context.Context, ref targets.Ref, ids []string, version, _ string) error {
	what := fmt.Sprintf("delete %d instances of group %q of fleet %q", len(ids), ref.Name, f.base.Name)
	return f.base.Write(ctx, ref, what, func(ctx context.Context, t Target) error { return f.remove(ctx, &t, ids, version) })
}

func (f *Fleet) resize(ctx context.Context, t *Target, n int32, version string) error {
	if n < 0 {
		return &targets.OutOfRangeError{Min: new(int32), Err: fmt.Errorf("%d instances are less than none", n)}
	}
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	group, err := current(ctx, s, t, version)
	if err != nil || replicas(group.TargetSize) == n {
		return err
	}
	if err := f.free(ctx, s, t, group); err != nil {
		return err
	}
	d := decision{target: t.Name(), version: versionOf(group), to: fmt.Sprint(n)}
	return f.write(ctx, s, t, d, func(request string) (*compute.Operation, error) { return s.resize(ctx, t, n, request) })
}

// current reads a group, which has to be at version still.
func current(ctx context.Context, s *session, t *Target, version string) (*compute.InstanceGroupManager, error) {
	group, err := s.group(ctx, t)
	if err != nil {
		return nil, err
	}
	if now := versionOf(group); version != "" && version != now {
		return nil, fmt.Errorf("%w: %v was %s (id/size) and is %s now", targets.ErrConflict, t, version, now)
	}
	return group, nil
}

// free returns why a group must not be changed now; nil when it may be.
func (f *Fleet) free(ctx context.Context, s *session, t *Target, group *compute.InstanceGroupManager) error {
	hold := f.config.rolloutHold(t, group)
	if path := autoscalerOf(group); path != "" {
		mode, err := s.autoscaler(ctx, t, path)
		switch {
		case errors.Is(err, targets.ErrForbidden):
			hold = &policy.Hold{Reason: NativeAutoscaler, Message: fmt.Sprintf(
				"%v has the autoscaler %q, whose mode is not known: grant compute.autoscalers.get, or delete the autoscaler: %v", t, lastSegments(path, 1), err)}
		case err != nil:
			return err
		default:
			if on := modeHold(t, path, mode); on != nil {
				hold = on
			}
		}
	}
	if hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	return nil
}

// mostRemoved is how many instances Compute Engine deletes in one call.
const mostRemoved = 1000

func (f *Fleet) remove(ctx context.Context, t *Target, ids []string, version string) error {
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	group, err := current(ctx, s, t, version)
	if err != nil {
		return err
	}
	members, err := s.members(ctx, t)
	if err != nil {
		return err
	}
	var urls []string
	for _, m := range members {
		standing := standingOf(m)
		if standing.counted && !standing.deleting && slices.Contains(ids, idOf(m)) {
			urls = append(urls, fmt.Sprintf("zones/%s/instances/%s", zoneOf(m), nameOf(m)))
		}
	}
	if len(urls) == 0 {
		return nil
	}
	if err := f.free(ctx, s, t, group); err != nil {
		return err
	}
	slices.Sort(urls)
	size := replicas(group.TargetSize)
	for part := range slices.Chunk(urls, mostRemoved) {
		d := decision{target: t.Name(), version: versionOf(group), to: "without " + strings.Join(part, " ")}
		err := f.write(ctx, s, t, d, func(request string) (*compute.Operation, error) { return s.remove(ctx, t, part, request) })
		switch {
		case err != nil && size < replicas(group.TargetSize) && !errors.Is(err, targets.ErrUnknownOutcome):
			return &targets.PartialError{Reached: size, Err: err}
		case err != nil:
			return err
		}
		size -= int32(len(part))
	}
	return nil
}

// write sends a decision, and waits a moment for its failure.
func (f *Fleet) write(ctx context.Context, s *session, t *Target, d decision, send func(request string) (*compute.Operation, error)) error {
	f.changed(t)
	defer f.changed(t)
	f.changes.wrote(d, time.Now())
	started, err := send(f.changes.requestOf(d, time.Now()))
	if !errors.Is(err, targets.ErrUnknownOutcome) {
		f.changes.forget(d.target)
	}
	if err != nil {
		return err
	}
	return f.confirm(ctx, s, t, started)
}

// changed forgets what was listed of a group, because hpad changes it.
func (f *Fleet) changed(t *Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, t.Name())
}

// How long the end of an operation is waited for, which shows whether the change can
// be had at all, and the pauses between looks, which grow.
const (
	confirmedWithin = 3 * time.Second
	firstConfirm    = 100 * time.Millisecond
	longestConfirm  = time.Second
)

const operationDone = "DONE"

// confirm waits a moment for the end of an operation. One that is still under way
// then is accepted, and followed in later rounds.
func (f *Fleet) confirm(ctx context.Context, s *session, t *Target, started *compute.Operation) error {
	if last := s.await(ctx, t, started); last.Status == operationDone {
		return operationError(last)
	}
	f.changes.begun(t.Name(), started.Name)
	return nil
}

// await follows an operation for a moment, and returns it as it was seen last.
func (s *session) await(ctx context.Context, t *Target, last *compute.Operation) *compute.Operation {
	end := time.Now().Add(confirmedWithin)
	for pause := firstConfirm; last.Status != operationDone; pause = min(2*pause, longestConfirm) {
		if time.Now().Add(pause).After(end) || gax.Sleep(ctx, pause) != nil {
			break
		}
		next, err := s.follow(ctx, t, last.Name)
		if err != nil {
			break
		}
		last = next
	}
	return last
}

// operationError returns why an operation failed, in a class; nil when it did not.
func operationError(o *compute.Operation) error {
	if o.Error == nil && o.HttpErrorStatusCode < 400 {
		return nil
	}
	answer := newAnswer(max(int(o.HttpErrorStatusCode), http.StatusBadRequest), "", o.HttpErrorMessage)
	if o.Error != nil && len(o.Error.Errors) > 0 {
		answer.Code = strings.ReplaceAll(o.Error.Errors[0].Code, "_", "")
		answer.Message = o.Error.Errors[0].Message
	}
	// What failed is over: nothing of it is left open.
	rules := changeRules
	if answer.Status >= http.StatusInternalServerError {
		rules = nil
	}
	return fmt.Errorf("operation %s: %w", o.Name, answer.Classify(rules...))
}
