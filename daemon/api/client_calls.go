package api

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/hpad/hpad/policy"
)

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

// History returns the recorded entries of an autoscaler, oldest first. An empty name selects all
// autoscalers. A limit of 0 means DefaultHistoryLimit. The error is ErrNotFound if the name is
// unknown.
func (c *Client) History(ctx context.Context, name string, query HistoryQuery) ([]Recorded, error) {
	path, limit := PathOf(policy.Scope{Autoscaler: name}, "history"), cmp.Or(query.Limit, defaultHistoryLimit)
	var entries []Recorded
	for {
		read, more, err := exchange[[]Recorded](ctx, c, http.MethodGet, path+encodeQuery(query), nil)
		if err != nil {
			return nil, err
		}
		if entries = append(read, entries...); more == "" || len(entries) >= limit {
			return entries[max(0, len(entries)-limit):], nil
		}
		query.Continue = more
	}
}

// pageSize is the maximum number of autoscalers per response. It is large because over TCP, each
// page may require a password check.
const pageSize = 10_000

// Autoscalers returns all autoscalers, sorted by name, without their decisions and events.
func (c *Client) Autoscalers(ctx context.Context) ([]Autoscaler, error) {
	list := []Autoscaler{}
	for view, err := range eachAutoscaler(ctx, c, false) {
		if err != nil {
			return nil, err
		}
		list = append(list, view)
	}
	return list, nil
}

// EachBriefly iterates over the autoscalers, sorted by name, and requests them page by page. It sets
// only the fields that a table of autoscalers needs. An autoscaler that exists during the whole
// iteration occurs exactly once. The iteration ends at the first error.
func (c *Client) EachBriefly(ctx context.Context) iter.Seq2[Autoscaler, error] {
	return eachAutoscaler(ctx, c, true)
}

func eachAutoscaler(ctx context.Context, c *Client, brief bool) iter.Seq2[Autoscaler, error] {
	return func(yield func(Autoscaler, error) bool) {
		for query := (ListQuery{Limit: pageSize, Brief: brief}); ; {
			page, more, err := exchange[[]Autoscaler](ctx, c, http.MethodGet, Path("autoscalers")+encodeQuery(query), nil)
			if err != nil {
				yield(Autoscaler{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
			if query.Continue = more; more == "" {
				return
			}
		}
	}
}
