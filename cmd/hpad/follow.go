package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// followInterval is the interval between requests for --watch and --follow.
const followInterval = time.Second

// follow calls list immediately and then at each interval. It returns nil when ctx ends, and an
// error if list fails. After the first success, an unreachable daemon is not an error: follow
// writes one warning to w and waits for the daemon.
func follow(ctx context.Context, w io.Writer, list func() error) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	listed, lost := false, false
	for {
		err := list()
		_, unreachable := errors.AsType[*api.ReachError](err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			listed, lost = true, false
		case !listed || !unreachable:
			return err
		case !lost:
			lost = true
			notice(w, "warning", "%v; waiting for the daemon", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// rejectJSON returns an error for JSON output, because an endless list is not a valid JSON value.
func (f outputFormat) rejectJSON(flag string) error {
	if f == outputJSON {
		return fmt.Errorf("%s with -o json: the output has no end, use -o jsonl", flag)
	}
	return nil
}

// maxRecordDelay limits the age of a new entry relative to the newest entry. An evaluation is
// recorded when it ends, but with the time of the tick that started it.
const maxRecordDelay = 2 * time.Minute

// historyCursor determines which entries of a history are new.
type historyCursor struct {
	newest time.Time
	// oldest is the time of the first entry within the limit, or zero if there is no limit.
	oldest time.Time
	// seen is the set of entries that are at most maxRecordDelay older than the newest.
	seen map[entryID]bool
}

type entryID struct {
	autoscaler string
	at         int64
}

// unseen returns the new entries in a sorted list.
func (r *historyCursor) unseen(entries []api.Recorded) []api.Recorded {
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

// from returns the earliest time of possible new entries. It is zero before the first call of
// unseen.
func (r *historyCursor) from() time.Time {
	if r.newest.IsZero() {
		return time.Time{}
	}
	return r.newest.Add(-maxRecordDelay)
}
