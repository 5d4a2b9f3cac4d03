package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/api"
	apiv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/hpad/hpad/sources"
)

const (
	// maxAnswerBytes bounds an answer: enough for some 300,000 series.
	maxAnswerBytes = 64 << 20
	// maxShownQuery and maxShownAnswer bound what errors repeat, in characters.
	maxShownQuery  = 200
	maxShownAnswer = 300
)

// boundedTransport refuses answers of more than maxAnswerBytes.
type boundedTransport struct {
	next http.RoundTripper
}

// RoundTrip sends a request.
func (t boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswerBytes)
	return response, nil
}

// CloseIdleConnections is what http.Client looks for.
func (t boundedTransport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// answerClient turns every answer that is not a success of the Prometheus API
// into an error that says what came instead: the API's own client knows only some
// of Prometheus's status codes and says little of what others answer. It is for
// one request and remembers what became of it.
type answerClient struct {
	api.Client
	// body is the last answer's, err what was wrong with it; nil when nothing was.
	body []byte
	err  error
}

// Do sends a request. The response is answered with an error too, because the
// API's client falls back from POST to GET by its status.
func (c *answerClient) Do(ctx context.Context, request *http.Request) (*http.Response, []byte, error) {
	response, body, err := c.Client.Do(ctx, request)
	c.body = body
	if err != nil {
		c.err = explainTransport(err)
	} else {
		c.err = checkAnswer(response, body)
	}
	return response, body, c.err
}

// explainTransport leaves out of an error what the caller says better (the URL,
// with whatever it holds) and puts the bound on answers into words.
func explainTransport(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("answer is larger than %d MiB; let the query select or aggregate more", tooLarge.Limit>>20)
	}
	return err
}

// explainBody says why the API's client could not make sense of an answer with a
// good status. The client's own words are about its decoder.
func explainBody(err error, body []byte) error {
	if refused, ok := errors.AsType[*apiv1.Error](err); ok && refused.Type != apiv1.ErrBadResponse {
		return fmt.Errorf("server answered %s", shorten(string(refused.Type)+": "+refused.Msg, maxShownAnswer))
	}
	if !json.Valid(body) {
		return fmt.Errorf("answer is cut short or garbled: %s", errorText(body))
	}
	var answer struct {
		Data struct {
			ResultType string `json:"resultType"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Data.ResultType == "string" {
		return &sources.QueryError{Err: errors.New("result is a string, want a vector or a scalar")}
	}
	return fmt.Errorf("answer is not what the Prometheus API answers: %s", errorText(body))
}

// checkAnswer is nil for what can be the success of the Prometheus API.
func checkAnswer(response *http.Response, body []byte) error {
	status := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	body = bytes.TrimSpace(body)
	switch class := response.StatusCode / 100; {
	case class == 3:
		return fmt.Errorf("server answered %s to %q; set url to where the API itself is", status, withoutCredentials(response.Header.Get("Location")))
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return fmt.Errorf("server answered %s: %s; check basic_auth, token_file, headers and tls", status, errorText(body))
	case class != 2:
		return judgeStatus(response.StatusCode, body, fmt.Errorf("server answered %s: %s", status, errorText(body)))
	case len(body) == 0:
		return fmt.Errorf("server answered %s with nothing in it; is there a Prometheus API at url?", status)
	case body[0] != '{':
		return fmt.Errorf("server answered %s with %q instead of JSON; is there a Prometheus API at url? %s",
			status, response.Header.Get("Content-Type"), errorText(body))
	}
	return nil
}

// errorText is what the body of a failed answer says: the API's type and message,
// or its beginning.
func errorText(body []byte) string {
	var answer struct {
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		return shorten(answer.ErrorType+": "+answer.Error, maxShownAnswer)
	}
	if len(body) == 0 {
		return "(empty body)"
	}
	// A character has up to four bytes.
	return fmt.Sprintf("%q", shorten(string(body[:min(len(body), 4*maxShownAnswer)]), maxShownAnswer))
}

// shorten makes one line of at most so many characters of a text. What cannot be
// printed, such as the codes that steer a terminal, is left as a question mark.
func shorten(text string, characters int) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > characters {
		line = append(line[:characters-1], '…')
	}
	for i, r := range line {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			line[i] = '?'
		}
	}
	return string(line)
}
