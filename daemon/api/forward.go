package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/hpad/hpad/policy"
)

// Forwarder is implemented by a Daemon that forwards some requests to other daemons.
type Forwarder interface {
	// Owner returns the handler for requests about an autoscaler or a fleet, or nil if this
	// daemon handles them. An error is the reason why the request must be rejected; it is an ErrMoving if
	// the fleet may get another owner soon. again is set if the previous attempt ended with an ErrMoving
	// or without a response of the owner. Owner then reads the owners again.
	Owner(ctx context.Context, scope policy.Scope, again bool) (http.Handler, error)
}

const (
	// TakeoverWait is the time limit for a write that waits for the next owner of a fleet. With the
	// default lease of 15 s, a takeover ends earlier.
	TakeoverWait = 25 * time.Second
	// TakeoverInterval is the interval at which a write that waits for the next owner reads the owners.
	TakeoverInterval = time.Second / 2
	// movingHeader is the header of a response to an ErrMoving.
	movingHeader = "Hpad-Moving"
	// forwardTimeout is the time limit for a forwarded request. It is longer than the limit of a write.
	// After TakeoverWait, there is still enough time to write the response.
	forwardTimeout = writeTimeout/2 + 2*time.Second
)

// owned returns a handler for writes about an autoscaler or a fleet. If the owner is a different
// daemon, it forwards them to the owner. If the fleet is moving to another owner, it repeats the
// write within TakeoverWait. It also repeats a write with an unknown outcome if repeatable is set.
func (h handlers) owned(here http.HandlerFunc, repeatable bool) http.HandlerFunc {
	forwarder, ok := h.daemon.(Forwarder)
	if !ok {
		return here
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			writeError(w, ErrorBadData, "read the body: "+err.Error())
			return
		}
		waiting, cancel := context.WithTimeout(r.Context(), TakeoverWait)
		defer cancel()
		for again := false; ; again = true {
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := &bufferedResponse{header: http.Header{}}
			owner, err := forwarder.Owner(waiting, requestedScope(r), again)
			switch {
			case err != nil:
				writeFailure(answer, err)
			case owner != nil:
				owner.ServeHTTP(answer, r)
			default:
				here(answer, r)
			}
			repeats := answer.header.Get(movingHeader) != "" || repeatable && answer.status == http.StatusGatewayTimeout
			if !repeats || r.Header.Get(MemberHeader) != "" || !sleep(waiting, TakeoverInterval) {
				answer.writeTo(w)
				return
			}
		}
	}
}

// sleep waits for a duration, and returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// bufferedResponse is a response that has not been sent yet.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header               { return b.header }
func (b *bufferedResponse) WriteHeader(status int)            { b.status = status }
func (b *bufferedResponse) Write(content []byte) (int, error) { return b.body.Write(content) }

func (b *bufferedResponse) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), b.header)
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body.Bytes())
}

// Forward forwards a request to the daemon on behalf of the author in the request's context, and
// writes the response. The client must come from [Client.For], so that the daemon does not
// forward the request again.
func (c *Client) Forward(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	body, err := io.ReadAll(r.Body)
	var data json.RawMessage
	var warnings []string
	if err == nil {
		warning := c.Warning(func(text string) { warnings = append(warnings, text) })
		data, _, err = exchange[json.RawMessage](ctx, warning, r.Method, r.URL.RequestURI(), body)
	}
	err = Forwarded(err)
	if rejected, is := errors.AsType[*Error](err); is {
		if rejected.moving {
			w.Header().Set(movingHeader, "true")
		}
		writeRejection(w, rejected)
	} else if err != nil {
		writeFailure(w, err)
	} else {
		writePage(w, data, "", warnings)
	}
}

// Forwarded returns the error for the author of a write, given the error from forwarding it to another
// member. If that member does not allow this member's user to write, the returned error explains
// this, because the author cannot fix the problem. If the member did not respond, the error is an
// ErrMoving if it has not received the write, and otherwise an ErrUnknownOutcome.
func Forwarded(err error) error {
	if err == nil {
		return nil
	}
	rejected, is := errors.AsType[*Error](err)
	if !is {
		if failed, is := errors.AsType[*ReachError](err); is && failed.Unsent {
			return fmt.Errorf("%w: %w", ErrMoving, err)
		}
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	if rejected.Type != ErrorUnauthorized && rejected.Type != ErrorForbidden {
		return err
	}
	return &Error{
		Status: http.StatusConflict, Type: ErrorRefused,
		Message: "the owner of the fleet rejects writes from this member's user in [ha.members]: " + rejected.Message,
	}
}
