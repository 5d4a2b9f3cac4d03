package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// followInterval is how often a command that follows something asks for it.
const followInterval = time.Second

// follow calls look at once and then at each interval, until ctx ends, which is the
// clean end, or look fails. A daemon that cannot be reached after the first time is
// waited for, as at its restart; told once, on to.
func follow(ctx context.Context, to io.Writer, look func() error) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	looked, lost := false, false
	for {
		err := look()
		_, unreachable := errors.AsType[*api.ReachError](err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			looked, lost = true, false
		case !looked || !unreachable:
			return err
		case !lost:
			lost = true
			notice(to, "warning", "%v; waiting for it", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// refuseWhole returns an error for a format that is of a whole, which what goes on never
// is.
func (f outputFormat) refuseWhole(flag string) error {
	if f == outputJSON {
		return fmt.Errorf("%s never ends, and -o json is of a whole: use -o jsonl", flag)
	}
	return nil
}

// recordedLate is for how long after the newest entry that was seen an earlier one may still be
// recorded: a pass is recorded when it ends, at the time of its tick.
const recordedLate = 2 * time.Minute

// recordedAfter is what a follower of a history has seen.
type recordedAfter struct {
	newest time.Time
	// oldest is when the first of the entries was that were asked for; zero where it was
	// all that there are.
	oldest time.Time
	// seen are the entries since recordedLate before the newest.
	seen map[entryID]bool
}

// entryID is one entry of a history.
type entryID struct {
	autoscaler string
	at         int64
}

// unseen returns those of the entries, which are in order, that were not seen before.
func (r *recordedAfter) unseen(entries []api.Recorded) []api.Recorded {
	var fresh []api.Recorded
	for _, entry := range entries {
		id := entryID{entry.Autoscaler, entry.Time.UnixNano()}
		if r.seen[id] || entry.Time.Before(r.oldest) {
			continue
		}
		if r.seen == nil {
			r.seen = map[entryID]bool{}
		}
		r.seen[id] = true
		if entry.Time.After(r.newest) {
			r.newest = entry.Time
		}
		fresh = append(fresh, entry)
	}
	for id := range r.seen {
		if id.at < r.from().UnixNano() {
			delete(r.seen, id)
		}
	}
	return fresh
}

// from returns from when on entries may be new; zero before the first.
func (r *recordedAfter) from() time.Time {
	if r.newest.IsZero() {
		return time.Time{}
	}
	return r.newest.Add(-recordedLate)
}
