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

// Forwarder is a Daemon that forwards some requests to other daemons.
type Forwarder interface {
	// Owner returns the handler of requests about one autoscaler or one fleet; nil for this
	// daemon. An error is a reason to reject the request.
	Owner(ctx context.Context, scope policy.Scope) (http.Handler, error)
}

// owned returns a handler of requests about one autoscaler or one fleet that forwards them to
// the owner if that is another daemon.
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

// forwardTimeout is the time limit of a forwarded request. It leaves time to write the response.
const forwardTimeout = writeTimeout - 20*time.Second

// Forward sends a request to the daemon again, in the name of the author of the request's
// context, and writes the response. Only a client that [Client.For] returned forwards: its
// requests are never forwarded again.
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

// Denied returns the error of a write that one member sent to another: the author cannot change
// that the user of the member may not write.
func Denied(err error) error {
	rejected, is := errors.AsType[*Error](err)
	if !is || rejected.Type != ErrorUnauthorized && rejected.Type != ErrorForbidden {
		return err
	}
	return &Error{
		Status: http.StatusConflict, Type: ErrorRefused,
		Message: "the owner of the fleet rejects writes from this member, as the user in [ha.members]: " + rejected.Message,
	}
}
