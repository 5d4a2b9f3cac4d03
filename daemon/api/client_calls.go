package api

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hpad/hpad/policy"
)

// pathOf returns the API path of a scope.
func pathOf(scope policy.Scope) string {
	switch {
	case scope.Autoscaler != "":
		return "/api/v1/autoscalers/" + url.PathEscape(scope.Autoscaler)
	case scope.Fleet != "":
		return "/api/v1/fleets/" + url.PathEscape(scope.Fleet)
	}
	return "/api/v1"
}

// pathOfAutoscaler returns the API path of an autoscaler. If name is empty, it returns the root
// of the API.
func pathOfAutoscaler(name string) string { return pathOf(policy.Scope{Autoscaler: name}) }

// Autoscaler returns an autoscaler. The error is ErrNotFound if the autoscaler does not exist.
func (c *Client) Autoscaler(ctx context.Context, name string) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodGet, pathOfAutoscaler(name), nil)
}

// Instances makes the daemon read the instances of an autoscaler's target, and returns them. The
// error is ErrNotFound if the autoscaler does not exist.
func (c *Client) Instances(ctx context.Context, name string) (InstanceList, error) {
	return call[InstanceList](ctx, c, http.MethodGet, pathOfAutoscaler(name)+"/instances", nil)
}

// Explain returns the last decision of an autoscaler. The error is ErrNotFound if the autoscaler
// does not exist.
func (c *Client) Explain(ctx context.Context, name string) (Explanation, error) {
	return call[Explanation](ctx, c, http.MethodGet, pathOfAutoscaler(name)+"/explain", nil)
}

// ExplainAt returns the newest decision of an autoscaler that was recorded at or before an
// instant. The error is ErrNotFound if there is none.
func (c *Client) ExplainAt(ctx context.Context, name string, at time.Time) (Explanation, error) {
	query := url.Values{"at": {at.Format(time.RFC3339Nano)}}
	return call[Explanation](ctx, c, http.MethodGet, pathOfAutoscaler(name)+"/explain?"+query.Encode(), nil)
}

// Discovered returns the targets that were discovered by their labels, sorted.
func (c *Client) Discovered(ctx context.Context) ([]Discovered, error) {
	return call[[]Discovered](ctx, c, http.MethodGet, "/api/v1/discovery", nil)
}

// Health returns the health of the daemon. An unhealthy daemon is not an error.
func (c *Client) Health(ctx context.Context) (health Health, err error) {
	err = c.send(ctx, http.MethodGet, "/-/healthy", nil, readResponseTimeout, func(r *http.Response) error {
		body, err := c.readBody(r)
		if err != nil {
			return err
		}
		if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusServiceUnavailable {
			return c.unexpected(r, errors.New("its status is neither 200 nor 503"))
		}
		return c.decode(r, body, &health) // there is no envelope, because probes read only the HTTP status
	})
	return health, err
}

// Reload makes the daemon reload its configuration, and returns the changes. If the reload fails,
// the previous configuration remains active.
func (c *Client) Reload(ctx context.Context) (ReloadChanges, error) {
	return call[ReloadChanges](ctx, c, http.MethodPost, "/-/reload", nil)
}

// ReloadChanges returns the changes that a reload would make, sorted by key. If a reload would be
// rejected, it returns an [Error] of type ErrorReload with the reason.
func (c *Client) ReloadChanges(ctx context.Context) (ReloadChanges, error) {
	return call[ReloadChanges](ctx, c, http.MethodGet, "/api/v1/status/reload", nil)
}

// Pauses returns the active pauses. Pauses with wider scopes come first.
func (c *Client) Pauses(ctx context.Context) ([]policy.Pause, error) {
	return call[[]policy.Pause](ctx, c, http.MethodGet, "/api/v1/pauses", nil)
}

// Pause pauses a scope and returns the pause. It replaces an earlier pause of the same scope. The
// error is ErrNotFound if the autoscaler or fleet does not exist.
func (c *Client) Pause(ctx context.Context, scope policy.Scope, request PauseRequest) (policy.Pause, error) {
	return call[policy.Pause](ctx, c, http.MethodPost, pathOf(scope)+"/pause", request)
}

// Resume ends the pause of a scope and returns it. If there is none, it returns an [Error] of
// type ErrorNotPaused.
func (c *Client) Resume(ctx context.Context, scope policy.Scope) (policy.Pause, error) {
	return call[policy.Pause](ctx, c, http.MethodPost, pathOf(scope)+"/resume", nil)
}

// Scale sets the count of an autoscaler's target and returns the autoscaler. If it returns an
// [Error] of type ErrorRefused, the count is unchanged.
func (c *Client) Scale(ctx context.Context, name string, replicas int32, force bool) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodPost, pathOfAutoscaler(name)+"/scale", ScaleRequest{Replicas: &replicas, Force: force})
}

// Evaluate makes the daemon evaluate an autoscaler immediately, and returns the autoscaler. If it
// cannot be evaluated, Evaluate returns an [Error] of type ErrorRefused.
func (c *Client) Evaluate(ctx context.Context, name string) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodPost, pathOfAutoscaler(name)+"/evaluate", nil)
}

// Restart makes the daemon replace the instances of an autoscaler's target, and returns the
// autoscaler. If it returns an [Error] of type ErrorRefused, nothing has changed.
func (c *Client) Restart(ctx context.Context, name string) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodPost, pathOfAutoscaler(name)+"/restart", nil)
}

// History returns the recorded entries of an autoscaler in [from, to), oldest first. An empty
// name selects all autoscalers. A zero time means no bound. If there are more than limit entries,
// it returns the newest ones; a limit of 0 means DefaultHistoryLimit. The error is ErrNotFound if
// the name is unknown.
func (c *Client) History(ctx context.Context, name string, from, to time.Time, limit int) ([]Recorded, error) {
	return c.HistoryOf(ctx, name, HistoryQuery{From: from, To: to, Limit: limit})
}

// HistoryQuery selects entries of a history.
type HistoryQuery struct {
	// From is inclusive and To is exclusive. A zero time means no bound.
	From, To time.Time
	// Changes excludes entries for which Recorded.Changed is false.
	Changes bool
	// Limit is the maximum number of entries; 0 means DefaultHistoryLimit.
	Limit int
}

func (q HistoryQuery) values() url.Values {
	query := url.Values{}
	for key, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			query.Set(key, at.Format(time.RFC3339Nano))
		}
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Changes {
		query.Set("changes", "true")
	}
	return query
}

// HistoryOf is like History, but supports all options.
func (c *Client) HistoryOf(ctx context.Context, name string, q HistoryQuery) ([]Recorded, error) {
	query, limit := q.values(), cmp.Or(q.Limit, DefaultHistoryLimit)
	var entries []Recorded
	for {
		read, more, err := exchange[[]Recorded](ctx, c, http.MethodGet, pathOfAutoscaler(name)+"/history?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		if entries = append(read, entries...); more == "" || len(entries) >= limit {
			return entries[max(0, len(entries)-limit):], nil
		}
		query.Set("continue", more)
	}
}

// pageSize is the maximum number of autoscalers per response. It is large because over TCP, each
// page may require a password check.
const pageSize = 10_000

// Autoscalers returns all autoscalers, sorted by name, without their decisions and events.
func (c *Client) Autoscalers(ctx context.Context) ([]Autoscaler, error) {
	list := []Autoscaler{}
	for view, err := range c.EachAutoscaler(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, view)
	}
	return list, nil
}

// EachAutoscaler iterates over the autoscalers that Autoscalers returns, and requests them page
// by page. An autoscaler that exists during the whole iteration occurs exactly once. The
// iteration ends at the first error.
func (c *Client) EachAutoscaler(ctx context.Context) iter.Seq2[Autoscaler, error] {
	return eachAutoscaler(ctx, c, false)
}

// EachBriefly is like EachAutoscaler, but sets only the fields that a table of autoscalers needs.
func (c *Client) EachBriefly(ctx context.Context) iter.Seq2[Autoscaler, error] {
	return eachAutoscaler(ctx, c, true)
}

func eachAutoscaler(ctx context.Context, c *Client, brief bool) iter.Seq2[Autoscaler, error] {
	return func(yield func(Autoscaler, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if brief {
			query.Set("brief", "true")
		}
		for {
			page, more, err := exchange[[]Autoscaler](ctx, c, http.MethodGet, "/api/v1/autoscalers?"+query.Encode(), nil)
			if err != nil {
				yield(Autoscaler{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if more == "" {
				return
			}
			query.Set("continue", more)
		}
	}
}
