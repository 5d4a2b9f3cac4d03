package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets/drain"
)

// The default and the maximum number of entries in a history response.
const (
	defaultHistoryLimit = 50
	MaxHistoryLimit     = 1000
)

// Recorded is one entry in an autoscaler's history. It is either a reload, or a decision that
// changed the count or the reason of a condition, with its outcome.
type Recorded struct {
	Autoscaler string    `json:"autoscaler"`
	Time       time.Time `json:"time"`
	// Written is the count that was written, or nil if none was written.
	Written *int32         `json:"written,omitempty"`
	Events  []policy.Event `json:"events,omitempty"`
	// Victims lists the removed instances if hpad chose them.
	Victims []drain.Victim `json:"victims,omitempty"`
	// Reason is a code as in Evaluation.
	Reason string `json:"reason,omitempty"`
	// Error explains the failure of the pass. It may be empty.
	Error string `json:"error,omitempty"`
	// Hold, DryRun, Since and Unreported are as in Evaluation. Entries from earlier versions of
	// hpad do not contain them.
	Hold       *policy.Hold    `json:"hold,omitempty"`
	DryRun     bool            `json:"dry_run,omitempty"`
	Since      time.Time       `json:"since,omitzero"`
	Unreported *Unreported     `json:"unreported,omitempty"`
	Decision   policy.Decision `json:"decision,omitzero"`
	// Reload is a configuration change, or nil for a decision.
	Reload *settings.Reload `json:"reload,omitempty"`
}

// failedRescale is the reason of the event for a failed write.
const failedRescale = "FailedRescale"

// BoundsChanged is the reason of the event for a new minimum or maximum.
const BoundsChanged = "BoundsChanged"

// ModeChanged is the reason of the event for a mode that a schedule changed.
const ModeChanged = "ModeChanged"

// RestartRequested is the reason of the event for a replacement that a user requested.
const RestartRequested = "RestartRequested"

// IsChange reports whether an event describes a change of the bounds or the mode, or a requested
// restart.
func IsChange(e policy.Event) bool {
	return e.Reason == BoundsChanged || e.Reason == ModeChanged || e.Reason == RestartRequested
}

// Evaluation returns the parts of the evaluation that are recorded.
func (r Recorded) Evaluation() Evaluation {
	return Evaluation{
		Last: r.Time, Error: r.Error, Written: r.Written, Hold: r.Hold, DryRun: r.DryRun, Reason: r.Reason, Since: r.Since, Unreported: r.Unreported,
	}
}

// At returns the explanation of a recorded decision. next is the following entry, or nil. The
// inputs of the metrics are the current ones, because they are not recorded.
func (e Explanation) At(r Recorded, next *Recorded) Explanation {
	e.agree(r, next)
	e.Decision, e.Next = &r.Decision, nil
	e.Evaluation = r.Evaluation()
	e.Victims, e.VictimsError, e.Drains = r.Victims, "", nil
	e.Status = policy.Status{CurrentReplicas: r.Decision.CurrentReplicas, DesiredReplicas: r.Decision.DesiredReplicas}
	switch {
	case r.Written != nil:
		e.Status.LastScaleTime = r.Time
	case r.Decision.Write:
		for _, event := range r.Events {
			if event.Reason == failedRescale {
				e.Status.Conditions = []policy.Condition{{Type: policy.AbleToScale, Status: policy.ConditionFalse, Reason: event.Reason, Message: event.Message}}
			}
		}
	}
	if len(e.Inputs) != len(r.Decision.Metrics) {
		e.Inputs = nil // the decision used different metrics
	}
	e.Inputs = slices.Clone(e.Inputs)
	for i := range e.Inputs {
		e.Inputs[i].SampleAgeSeconds = 0 // it is the current age
	}
	return e
}

// agree sets AgreedUntil to the time of the next entry, or of the first unreported change if that
// is earlier. If there is neither, it uses the time of the last pass.
func (e *Explanation) agree(r Recorded, next *Recorded) {
	until, unreported := e.Evaluation.Last, e.Evaluation.Unreported
	if next != nil {
		e.NextRecorded = next.Time
		until, unreported = next.Time, next.Unreported
	}
	if unreported != nil && unreported.From.Before(until) {
		until = unreported.From
	}
	if until.After(r.Time) {
		e.AgreedUntil = until
	}
}

// HistoryQuery selects entries of a history.
type HistoryQuery struct {
	// From is the earliest time of entries; zero means no bound.
	From time.Time `toml:"from"`
	// To is the time before which the entries were recorded; zero means no bound.
	To time.Time `toml:"to"`
	// Changes excludes entries for which Recorded.Changed is false.
	Changes bool `toml:"changes"`
	// Continue is the value of continue in a response, to request earlier entries.
	Continue string `toml:"continue"`
	// Limit is the maximum number of entries. If there are more, the response contains the newest
	// entries.
	Limit int `toml:"limit" min:"1" max:"1000" default:"50"`
}

// Period contains the bounds of a period.
type Period struct {
	// From is the start; zero means no bound, or for a graph 24 hours before the end.
	From time.Time `toml:"from"`
	// To is the end, which is not part of the period; zero means no bound.
	To time.Time `toml:"to"`
}

// history writes the recorded entries of an autoscaler or of all autoscalers, oldest first. It
// also writes the entries of a removed autoscaler.
func (h handlers) history(w http.ResponseWriter, r *http.Request, in HistoryQuery) {
	entries, more, err := h.recorded(r, in)
	if err == nil && len(entries) == 0 && more == "" && r.PathValue("name") != "" {
		_, err = h.named(r)
	}
	if err != nil {
		writeFailure(w, err)
		return
	}
	writePage(w, append([]Recorded{}, entries...), more, Warnings(r.Context())) // encode an empty list as []
}

// At most maxHistoryReads requests read the history concurrently, because anonymous clients may
// read it. Other requests wait up to maxHistoryWait.
const (
	maxHistoryReads = 2
	maxHistoryWait  = 10 * time.Second
)

// enter waits until the request may read the history. After maxHistoryWait it returns a failure. The
// caller must call leave after the read.
func (h handlers) enter(ctx context.Context) (leave func(), err error) {
	waited := time.NewTimer(maxHistoryWait)
	defer waited.Stop()
	select {
	case h.reading <- struct{}{}:
		return func() { <-h.reading }, nil
	case <-ctx.Done():
	case <-waited.C:
	}
	return nil, &failure{ErrorTooMany, errors.New("too many concurrent requests for the history")}
}

// recorded returns the requested entries and the continuation token.
func (h handlers) recorded(r *http.Request, in HistoryQuery) (entries []Recorded, more string, err error) {
	rest, err := Instant("continue", in.Continue)
	if err != nil {
		return nil, "", &failure{ErrorBadData, err}
	}
	if !rest.IsZero() {
		in.To = rest
	}
	leave, err := h.enter(r.Context())
	if err != nil {
		return nil, "", err
	}
	defer leave()
	if name := r.PathValue("name"); in.Changes {
		entries, more, err = h.changes(r.Context(), name, in.From, in.To, in.Limit)
	} else {
		entries, err = h.daemon.History(r.Context(), name, in.From, in.To, in.Limit)
	}
	return entries, more, err
}

// changes reads changesPage entries per call of Daemon.History. After maxChangesRead entries it
// stops and returns a continuation token.
const (
	changesPage    = 1000
	maxChangesRead = 10_000
)

// changes returns the newest entries for which Changed is true, and a continuation token if it
// stopped at maxChangesRead. It drops the entries with the earliest time in each page, because the
// next page contains all entries with that time.
func (h handlers) changes(ctx context.Context, name string, from, to time.Time, limit int) (found []Recorded, more string, err error) {
	read := 0
	for page := changesPage; len(found) < limit; { // newest first
		if read >= maxChangesRead && page == changesPage {
			more = to.UTC().Format(time.RFC3339Nano)
			break
		}
		entries, err := h.daemon.History(ctx, name, from, to, page)
		if err != nil {
			return nil, "", err
		}
		read += len(entries)
		whole := len(entries) < page
		if !whole {
			earliest := entries[0].Time
			entries = slices.DeleteFunc(entries, func(r Recorded) bool { return r.Time.Equal(earliest) })
			to = earliest.Add(time.Nanosecond)
			if page *= 2; len(entries) > 0 {
				page = changesPage
			}
		}
		for _, entry := range slices.Backward(entries) {
			if entry.Changed() {
				found = append(found, entry)
			}
		}
		if whole {
			break
		}
	}
	found = found[:min(limit, len(found))]
	slices.Reverse(found)
	return found, more, nil
}

// Changed reports whether the entry is a reload, or a pass that wrote a count, executed a command,
// found a manual change or a requested restart, or found changed bounds, a changed mode or a changed
// pause.
func (r Recorded) Changed() bool {
	return r.Reload != nil || r.Written != nil || r.Decision.Foreign != nil || r.Decision.Command != nil ||
		slices.ContainsFunc(r.Events, func(e policy.Event) bool { return IsChange(e) || e.IsPause() })
}

// unrecordedError is returned if no decision was recorded at or before an instant. It is an
// ErrUnknown.
type unrecordedError struct {
	name string
	at   time.Time
}

func (e *unrecordedError) Error() string {
	return fmt.Sprintf("no decision of %q is recorded at or before %s", e.name, e.at.Format(time.RFC3339))
}

func (e *unrecordedError) Unwrap() error { return ErrUnknown }

// ExplainAt returns the explanation of the newest decision at or before an instant. The error is
// ErrUnknown if there is none.
func ExplainAt(ctx context.Context, d Daemon, view Autoscaler, at time.Time) (Explanation, error) {
	entries, err := d.History(ctx, view.Name, time.Time{}, at.Add(time.Nanosecond), 1)
	for err == nil && len(entries) > 0 && entries[0].Reload != nil {
		entries, err = d.History(ctx, view.Name, time.Time{}, entries[0].Time, 1)
	}
	if err != nil {
		return Explanation{}, err
	}
	if len(entries) == 0 {
		return Explanation{}, &unrecordedError{view.Name, at}
	}
	next, err := recordedAfter(ctx, d, view.Name, entries[0].Time)
	if err != nil {
		return Explanation{}, err
	}
	return view.Explanation().At(entries[0], next), nil
}

// recordedAfter returns the first decision after an instant, or nil. It first
// searches a short period, so that it reads few entries.
func recordedAfter(ctx context.Context, d Daemon, name string, after time.Time) (*Recorded, error) {
	from := after.Add(time.Nanosecond)
	for span := time.Minute; ; span *= 8 {
		to := from.Add(span)
		whole := to.After(time.Now())
		if whole {
			to = time.Time{}
		}
		entries, err := d.History(ctx, name, from, to, 0)
		entries = slices.DeleteFunc(entries, func(r Recorded) bool { return r.Reload != nil })
		if err != nil || len(entries) == 0 && whole {
			return nil, err
		}
		if len(entries) > 0 {
			return &entries[0], nil
		}
	}
}

// maxSeconds is the last second of the year 9999.
const maxSeconds = 253402300799

// Instant parses a time in RFC 3339 format or in seconds since 1970. It returns the zero time for
// an empty string.
func Instant(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(seconds) <= maxSeconds) {
		return time.Time{}, fmt.Errorf("%s = %q: must be a time such as 2026-03-01T12:00:00Z, or in seconds since 1970", name, text)
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC(), nil
}
