package api

import (
	"cmp"
	"context"
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
	DefaultHistoryLimit = 50
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
	// Reason is the reason code of the pass, as in Evaluation.
	Reason string `json:"reason,omitempty"`
	// Error is the error of the pass. It may be empty.
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

// history writes the recorded entries of an autoscaler or of all autoscalers, oldest first. It
// also writes the entries of a removed autoscaler.
func (h handlers) history(w http.ResponseWriter, r *http.Request) {
	r = WithWarnings(r)
	entries, more, ok := h.recorded(w, r)
	if !ok {
		return
	}
	if len(entries) == 0 && more == "" && r.PathValue("name") != "" {
		if _, ok := h.named(w, r); !ok {
			return
		}
	}
	writePage(w, entries, more, Warnings(r.Context()))
}

// At most maxHistoryReads requests read the history concurrently, because anonymous clients may
// read it. Other requests wait up to maxHistoryWait.
const (
	maxHistoryReads = 2
	maxHistoryWait  = 10 * time.Second
)

// enter waits until the request may read the history. After maxHistoryWait it writes 429 and
// returns false. The caller must call leave after the read.
func (h handlers) enter(w http.ResponseWriter, r *http.Request) (leave func(), ok bool) {
	waited := time.NewTimer(maxHistoryWait)
	defer waited.Stop()
	select {
	case h.reading <- struct{}{}:
		return func() { <-h.reading }, true
	case <-r.Context().Done():
	case <-waited.C:
	}
	writeTooMany(w, "too many concurrent requests for the history")
	return nil, false
}

// recorded returns the requested entries and the continuation token, or writes an error.
func (h handlers) recorded(w http.ResponseWriter, r *http.Request) (entries []Recorded, more string, ok bool) {
	query := r.URL.Query()
	from, to, err1 := requestedPeriod(r)
	limit, err2 := historyLimit(query.Get("limit"))
	changes, err3 := boolParameter(r, "changes", false)
	rest, err4 := Instant("continue", query.Get("continue"))
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return nil, "", false
	}
	if !rest.IsZero() {
		to = rest
	}
	leave, ok := h.enter(w, r)
	if !ok {
		return nil, "", false
	}
	defer leave()
	var err error
	if name := r.PathValue("name"); changes {
		entries, more, err = h.changes(r.Context(), name, from, to, limit)
	} else {
		entries, err = h.daemon.History(r.Context(), name, from, to, limit)
	}
	if err != nil {
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
		return nil, "", false
	}
	if entries == nil {
		entries = []Recorded{} // encode an empty list as []
	}
	return entries, more, true
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

// explainAt writes the newest decision that was recorded at or before an instant.
func (h handlers) explainAt(w http.ResponseWriter, r *http.Request, view Autoscaler, text string) {
	at, err := Instant("at", text)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	leave, ok := h.enter(w, r)
	if !ok {
		return
	}
	explanation, err := ExplainAt(r.Context(), h.daemon, view, at)
	leave()
	if err != nil {
		writeActError(w, err)
		return
	}
	writeData(w, explanation)
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

// recordedAfter returns the first decision after an instant, or nil if there is none. It first
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

// requestedPeriod returns the parameters from and to, or zero times if they are absent.
func requestedPeriod(r *http.Request) (from, to time.Time, err error) {
	query := r.URL.Query()
	from, err1 := Instant("from", query.Get("from"))
	to, err2 := Instant("to", query.Get("to"))
	return from, to, cmp.Or(err1, err2)
}

func historyLimit(text string) (int, error) {
	if text == "" {
		return DefaultHistoryLimit, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > MaxHistoryLimit {
		return 0, fmt.Errorf("limit = %q: must be from 1 to %d", text, MaxHistoryLimit)
	}
	return limit, nil
}
