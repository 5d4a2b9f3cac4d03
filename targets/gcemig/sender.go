package gcemig

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// How a request is sent again after a passing trouble: so often at most, after a pause
// that may be twice as long each time.
const (
	attempts   = 3
	firstPause = 200 * time.Millisecond
)

// sender sends what the SDK asks for: each attempt within the limits of the project and
// the fleet's timeout. Its errors are in a class. A change is the same one when it is
// sent again, by its request id.
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

// RoundTrip sends a request, whose context is one of [reading] or [writing].
func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	call, _ := r.Context().Value(callKey{}).(cloud.Call)
	classify := readError
	if call.Class == cloud.Write {
		classify = writeError
	}
	var response *http.Response
	err := gax.Invoke(r.Context(), func(ctx context.Context, _ gax.CallSettings) error {
		return s.connection.limiter.Do(ctx, call, func(ctx context.Context) (err error) {
			response, err = s.attempt(ctx, r)
			return classify(err)
		})
	}, gax.WithRetry(newRetryer))
	if unauthorized(err) {
		s.connection.Forget(s.session)
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

func newRetryer() gax.Retryer {
	made := 0
	return gax.OnErrorFunc(gax.Backoff{Initial: firstPause}, func(err error) bool {
		made++
		return made < attempts && passing(err)
	})
}

// attempt sends a request once and reads the whole response within the fleet's timeout.
func (s *sender) attempt(ctx context.Context, r *http.Request) (*http.Response, error) {
	ctx, cancel := targets.Bounded(ctx, s.connection.config.Timeout)
	defer cancel()
	r = r.Clone(ctx)
	if r.GetBody != nil {
		r.Body, _ = r.GetBody() // of what is in memory
	}
	response, err := s.RoundTripper.RoundTrip(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err != nil {
		return nil, targets.Overdue(ctx, &url.Error{Op: r.Method[:1] + strings.ToLower(r.Method[1:]), URL: r.URL.String(), Err: err})
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if response.StatusCode >= http.StatusBadRequest {
		err = googleapi.CheckResponseWithBody(response, body)
	}
	return response, err
}
