package nomad

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hpad/hpad/targets"
)

// throttling keeps how long an answer asks to wait, which the client of Nomad's API
// does not tell. Nomad itself does not ask for a wait; a proxy before it may.
type throttling struct{ *http.Transport }

// longestRefusal is how much of a refusal is read.
const longestRefusal = 4 << 10

// RoundTrip answers a [targets.ThrottledError] in place of an answer that asks for a
// wait because there were too many calls.
func (t *throttling) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	wait := retryAfter(response.Header)
	if wait == 0 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal)) // what there is of it
	return nil, &targets.ThrottledError{RetryAfter: wait, Err: &answerError{status: response.StatusCode, body: string(body)}}
}

// retryAfter answers how long an answer asks to wait; 0 when it does not say.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
