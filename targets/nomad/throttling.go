package nomad

import (
	"io"
	"net/http"

	"github.com/hpad/hpad/targets"
)

// throttling keeps how long to wait by a response, which the client of Nomad's API
// drops. Nomad itself never says so; a proxy before it may.
type throttling struct{ *http.Transport }

// longestRefusal is how many bytes of a response are read.
const longestRefusal = 4 << 10

// RoundTrip returns a [targets.ThrottledError] in place of a response to too many
// calls that says how long to wait.
func (t *throttling) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	wait := targets.RetryAfter(response.Header)
	if wait == 0 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal)) // what there is of it
	return nil, &targets.ThrottledError{RetryAfter: wait, Err: &answerError{status: response.StatusCode, body: string(body)}}
}
