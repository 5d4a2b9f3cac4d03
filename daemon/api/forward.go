package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hpad/hpad/policy"
)

// Forwarder is implemented by a Daemon that forwards some requests to other daemons.
type Forwarder interface {
	// Owner returns the handler for requests about an autoscaler or a fleet, or nil if this
	// daemon handles them. An error is the reason why the request must be rejected.
	Owner(ctx context.Context, scope policy.Scope) (http.Handler, error)
}

// owned returns a handler for requests about an autoscaler or a fleet. If the owner is a
// different daemon, it forwards the requests to the owner.
func (h handlers) owned(here http.HandlerFunc) http.HandlerFunc {
	forwarder, ok := h.daemon.(Forwarder)
	if !ok {
		return here
	}
	return func(w http.ResponseWriter, r *http.Request) {
		owner, err := forwarder.Owner(r.Context(), requestedScope(r))
		switch {
		case err != nil:
			writeActError(w, err)
		case owner != nil:
			owner.ServeHTTP(w, r)
		default:
			here(w, r)
		}
	}
}

// forwardTimeout is the time limit for a forwarded request. It leaves enough time to write the
// response.
const forwardTimeout = writeTimeout - 20*time.Second

// Forward forwards a request to the daemon on behalf of the author in the request's context, and
// writes the response. The client must come from [Client.For], so that the daemon does not
// forward the request again.
func (c *Client) Forward(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	body, err := io.ReadAll(r.Body)
	var data json.RawMessage
	if err == nil {
		data, _, err = exchange[json.RawMessage](ctx, c, r.Method, r.URL.RequestURI(), body)
	}
	err = Denied(err)
	if rejected, is := errors.AsType[*Error](err); is {
		writeError(w, rejected.Status, rejected.Type, rejected.Message)
	} else if err != nil {
		writeActError(w, err)
	} else {
		writeData(w, data)
	}
}

// Denied returns the error for the author of a write, given the error from forwarding it to another
// member. If that member does not allow this member's user to write, the returned error explains
// this, because the author cannot fix the problem.
func Denied(err error) error {
	rejected, is := errors.AsType[*Error](err)
	if !is || rejected.Type != ErrorUnauthorized && rejected.Type != ErrorForbidden {
		return err
	}
	return &Error{
		Status: http.StatusConflict, Type: ErrorRefused,
		Message: "the owner of the fleet rejects writes from this member's user in [ha.members]: " + rejected.Message,
	}
}
