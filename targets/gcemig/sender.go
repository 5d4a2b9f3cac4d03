package gcemig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/api/googleapi"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// sender sends the requests of the SDK within the limits of the project and the fleet's
// timeout. Its errors have a class.
type sender struct {
	// RoundTripper adds the credentials.
	http.RoundTripper
	connection *connection
	session    *session
}

type callKey struct{}

// reading returns a context for a call that changes nothing, by the platform's name of
// the operation.
func reading(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, callKey{}, cloud.Call{Operation: operation, Class: cloud.Read})
}

// writing returns a context for a call that changes something.
func writing(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, callKey{}, cloud.Call{Operation: operation, Class: cloud.Write})
}

// RoundTrip sends a request, whose context is one of [reading] or [writing], and reads the
// whole response.
func (s *sender) RoundTrip(r *http.Request) (response *http.Response, err error) {
	call, _ := r.Context().Value(callKey{}).(cloud.Call)
	err = s.connection.limiter.Do(r.Context(), call, func(ctx context.Context) (err error) {
		if response, err = s.RoundTripper.RoundTrip(r.WithContext(ctx)); err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return err
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		if response.StatusCode >= http.StatusBadRequest {
			return googleapi.CheckResponseWithBody(response, body)
		}
		return nil
	})
	if errors.Is(err, cloud.ErrCredentials) {
		s.connection.Forget(s.session)
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// sent returns the error of a request without the words that the SDK adds.
func sent(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok && targets.Classed(wrapped.Err) {
		return wrapped.Err
	}
	return err
}
