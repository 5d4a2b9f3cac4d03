package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// History returns what was recorded of an autoscaler, or with an empty name of all,
// from one time up to, and not with, another, oldest first; a zero time is no
// bound. Of more than limit entries it is the newest ones; a limit of 0 means
// DefaultHistoryLimit. An error that is ErrNotFound means that nothing is known of
// that name.
func (c *Client) History(ctx context.Context, name string, from, to time.Time, limit int) ([]Recorded, error) {
	return c.HistoryOf(ctx, name, HistoryQuery{From: from, To: to, Limit: limit})
}

// HistoryQuery is what is asked for of a history.
type HistoryQuery struct {
	// From is the earliest time, and To the one before which they are; zero ones are no
	// bounds.
	From, To time.Time
	// Changes leaves out what changed nothing, as Recorded.Changed says.
	Changes bool
	// Limit is how many of the newest there are at most; 0 means DefaultHistoryLimit.
	Limit int
}

// values returns the query as parameters of a request.
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

// HistoryOf is as History, with all that can be asked for.
func (c *Client) HistoryOf(ctx context.Context, name string, q HistoryQuery) ([]Recorded, error) {
	query := q.values()
	path := "/api/v1/history"
	if name != "" {
		path = "/api/v1/autoscalers/" + url.PathEscape(name) + "/history"
	}
	limit := cmp.Or(q.Limit, DefaultHistoryLimit)
	var entries []Recorded
	for {
		var read []Recorded
		part := partOf{data: &read}
		if err := c.exchange(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &part); err != nil {
			return nil, err
		}
		if entries = append(read, entries...); part.more == "" || len(entries) >= limit {
			return entries[max(0, len(entries)-limit):], nil
		}
		query.Set("continue", part.more)
	}
}

// partOf receives the data of a response that may be incomplete. more is the continuation,
// or empty.
type partOf struct {
	data any
	more string
}

// ExplainAt returns the newest decision of an autoscaler that was recorded up to a
// time; an error that is ErrNotFound means that there is none.
func (c *Client) ExplainAt(ctx context.Context, name string, at time.Time) (Explanation, error) {
	query := url.Values{"at": {at.Format(time.RFC3339Nano)}}
	return call[Explanation](ctx, c, http.MethodGet, "/api/v1/autoscalers/"+url.PathEscape(name)+"/explain?"+query.Encode(), nil)
}
