package nomad

import (
	"io"
	"net/http"

	"github.com/hpad/hpad/targets"
)

// longestRefusal is how many bytes of a response are read.
const longestRefusal = 4 << 10

// throttled returns a [targets.ThrottledError] for a response to too many calls that
// says how long to wait, and closes it; nil for any other. The client of Nomad's API
// would drop that. Nomad itself never says so; a proxy before it may.
func throttled(response *http.Response) error {
	if response.StatusCode != http.StatusTooManyRequests {
		return nil
	}
	wait := targets.RetryAfter(response.Header)
	if wait == 0 {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal)) // what there is of it
	return &targets.ThrottledError{RetryAfter: wait, Err: &answerError{status: response.StatusCode, body: string(body)}}
}
