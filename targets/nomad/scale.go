package nomad

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// SetReplicas scales a group, if its job has not changed since version, with a
// message and meta for Nomad's own record. It reads the job first: a count that the
// group has already is not written again, since every write makes a version of the
// job.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	err := f.base.Scale(ctx, ref, n, "group", func(ctx context.Context, t Target) error {
		return f.setReplicas(ctx, ref, t, n, version, reason)
	})
	if errors.Is(err, targets.ErrThrottled) {
		f.recordError(err)
	}
	return err
}

func (f *Fleet) setReplicas(ctx context.Context, ref targets.Ref, t Target, n int32, version, reason string) error {
	session, err := f.open(ctx)
	if err != nil {
		return err
	}
	if err := f.backoff.Wait(); err != nil {
		return err
	}
	spec, err := session.read(ctx, t.jobKey())
	if err != nil {
		return fmt.Errorf("read job %q of %v: %w", t.Job, t.scope(), jobError(err))
	}
	g, err := spec.find(&t)
	if err != nil {
		return err
	}
	if version != "" && version != versionOf(spec.index) {
		return fmt.Errorf("%w: job %q was at index %s and is at %d now", targets.ErrConflict, t.Job, version, spec.index)
	}
	if g.count == n {
		return nil
	}
	if spec.stopped {
		return &targets.HeldError{Hold: policy.Hold{Reason: JobStopped, Message: fmt.Sprintf("job %q is stopped", t.Job)}}
	}
	if spec.jobType == api.JobTypeBatch { // work may have finished since the reading
		finished, err := session.finished(ctx, t.jobKey())
		if err != nil {
			return err
		}
		if hold := finishedHold(t.Job, finished); hold != nil {
			return &targets.HeldError{Hold: *hold}
		}
	}
	if g.min != nil && n < *g.min || g.max != nil && n > *g.max {
		return &targets.OutOfRangeError{Min: g.min, Max: g.max, Err: fmt.Errorf("the scaling block of group %q forbids %d replicas", t.Group, n)}
	}
	return writeError(session.scale(ctx, t.scope(), t.Job, request(ref, t, g.count, n, version, spec.index, reason)), g)
}

// request returns what is sent to scale a group.
func request(ref targets.Ref, t Target, from, to int32, version string, index uint64, reason string) *api.ScalingRequest {
	count := int64(to)
	r := &api.ScalingRequest{
		Count:   &count,
		Target:  map[string]string{"Job": t.Job, "Group": t.Group},
		Message: "hpad: " + reason,
		Meta:    map[string]any{"scaled_by": "hpad", "hpad_target": ref.String(), "from": from, "to": to, "reason": reason},
	}
	if version != "" {
		r.JobModifyIndex = index
	}
	return r
}
