package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hpad/hpad/policy"
)

// Pauses returns the pauses in force, the widest first.
func (c *Client) Pauses(ctx context.Context) ([]policy.Pause, error) {
	return call[[]policy.Pause](ctx, c, http.MethodGet, "/api/v1/pauses", nil)
}

// Pause pauses a scope, in the place of an earlier pause of it, and returns the pause.
// An error that is ErrNotFound means that there is no such autoscaler or fleet.
func (c *Client) Pause(ctx context.Context, scope policy.Scope, asked PauseRequest) (policy.Pause, error) {
	return call[policy.Pause](ctx, c, http.MethodPost, pathOf(scope)+"/pause", asked)
}

// Resume ends the pause of a scope and returns it. An [Error] of the type
// ErrorNotPaused means that there is none.
func (c *Client) Resume(ctx context.Context, scope policy.Scope) (policy.Pause, error) {
	return call[policy.Pause](ctx, c, http.MethodPost, pathOf(scope)+"/resume", nil)
}

// Scale sets the count of an autoscaler's target and returns the autoscaler. An [Error]
// of the type ErrorRefused means that nothing was done.
func (c *Client) Scale(ctx context.Context, name string, replicas int32, force bool) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodPost, pathOf(policy.Scope{Autoscaler: name})+"/scale", ScaleRequest{Replicas: &replicas, Force: force})
}

// Evaluate evaluates an autoscaler now and returns it. An [Error] of the type
// ErrorRefused means that it cannot be.
func (c *Client) Evaluate(ctx context.Context, name string) (Autoscaler, error) {
	return call[Autoscaler](ctx, c, http.MethodPost, pathOf(policy.Scope{Autoscaler: name})+"/evaluate", nil)
}

// pathOf returns the path of what a scope names.
func pathOf(scope policy.Scope) string {
	switch {
	case scope.Autoscaler != "":
		return "/api/v1/autoscalers/" + url.PathEscape(scope.Autoscaler)
	case scope.Fleet != "":
		return "/api/v1/fleets/" + url.PathEscape(scope.Fleet)
	}
	return "/api/v1"
}
