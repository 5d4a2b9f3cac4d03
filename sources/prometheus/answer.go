package prometheus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

const (
	// maxShownQuery and maxShownAnswer limit the text quoted in errors, in characters.
	maxShownQuery  = 200
	maxShownAnswer = 300
	// maxShownBytes is large enough for maxShownAnswer characters.
	maxShownBytes = 4 * maxShownAnswer
	// maxErrorBytes limits the body of an error response.
	maxErrorBytes = 64 << 10
	// readAhead is the size of the read buffer.
	readAhead = 32 << 10
)

// buffers are reused between responses.
type buffers struct {
	ahead *bufio.Reader
	json  jsontext.Decoder
}

var spare = sync.Pool{New: func() any { return &buffers{ahead: bufio.NewReaderSize(nil, readAhead)} }}

// release returns the buffers to the pool without references to the response.
func (b *buffers) release() {
	b.ahead.Reset(nil)
	b.json.Reset(http.NoBody)
	spare.Put(b)
}

// partialHeaders lists the headers by which M3 marks a partial result.
var partialHeaders = []string{"M3-Results-Limited", "M3-Returned-Data-Limited"}

func readVector(answer *http.Response, limit int64, collector *sources.Collector, m expectedTime) (sources.Vector, error) {
	b, _ := spare.Get().(*buffers)
	defer b.release()
	start, err := b.open(answer)
	if err != nil {
		return sources.Vector{}, err
	}
	input := &limitedReader{next: b.ahead, limit: limit}
	decoded, err := decode(input, collector, m, &b.json)
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return decoded.vector(answer.Header), nil
	case input.err != nil && !errors.Is(input.err, io.EOF):
		return sources.Vector{}, input.err
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return sources.Vector{}, fmt.Errorf("response is truncated or invalid: %s", errorText(start))
	case errors.Is(err, errNotPrometheus), errors.As(err, &semantic):
		return sources.Vector{}, fmt.Errorf("response is not from the Prometheus API: %s", errorText(start))
	}
	return sources.Vector{}, err
}

func (r *response) vector(header http.Header) sources.Vector {
	warnings, infos := r.remarks(header)
	vector := r.Data.Result.collector.Vector(warnings)
	vector.Infos = infos
	return vector
}

// remarks returns the warnings and the infos of a response.
func (r *envelope) remarks(header http.Header) (warnings, infos []string) {
	for _, name := range partialHeaders {
		if value := header.Get(name); value != "" {
			r.Warnings.add(name + ": " + value)
		}
	}
	if r.IsPartial.Kind() == 't' {
		r.Warnings.add("the server marks the result as partial (isPartial)")
	}
	if r.Partial.Kind() == 't' {
		r.Warnings.add("the server marks the result as partial (partial)")
	}
	for _, text := range r.Warnings {
		if sources.IsInfo(text) {
			r.Infos.add(text)
		} else {
			warnings = append(warnings, text)
		}
	}
	return warnings, r.Infos
}

// open returns the beginning of a body that may be a successful response of the Prometheus API.
// For any other response, it returns an error.
func (b *buffers) open(response *http.Response) (start []byte, err error) {
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fmt.Errorf("server returned Content-Encoding %q, which was not requested", sources.Shorten(encoding, maxShownAnswer))
	}
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
		if err != nil {
			return nil, err
		}
		return nil, explainStatus(response, bytes.TrimSpace(text))
	}
	b.ahead.Reset(response.Body)
	start, err = b.ahead.Peek(maxShownBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	start = bytes.TrimSpace(bytes.Clone(start))
	switch {
	case len(start) == 0:
		return nil, errors.New("server returned 200 OK with an empty body; check that url is the address of a Prometheus API")
	case start[0] != '{':
		return nil, fmt.Errorf("server returned 200 OK with %q instead of JSON from the API; check that url is the address of a Prometheus API: %s",
			response.Header.Get("Content-Type"), errorText(start))
	}
	return start, nil
}

func explainStatus(response *http.Response, body []byte) error {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	switch class := response.StatusCode / 100; {
	case class == 3:
		return fmt.Errorf("server redirected with %s to %q; set url to the address of the API", status, httpclient.WithoutSecrets(response.Header.Get("Location")))
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return fmt.Errorf("server returned %s: %s; check the credentials, headers and tls", status, errorText(body))
	case response.StatusCode == http.StatusNotFound && response.Request != nil:
		return fmt.Errorf("server returned %s for %s %q: %s", status,
			response.Request.Method, httpclient.WithoutSecrets(response.Request.URL.String()), errorText(body))
	case class == 2:
		return fmt.Errorf("server returned %s instead of 200 OK: %s", status, errorText(body))
	}
	err := fmt.Errorf("server returned %s: %s", status, errorText(body))
	blamed := response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusUnprocessableEntity
	if blamed && slices.Contains(queryErrorTypes, parseError(body).ErrorType) {
		return &sources.QueryError{Err: err}
	}
	return err
}

// apiError is the error in a response of the API.
type apiError struct {
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
}

// parseError returns an empty error if the body is not from the API.
func parseError(body []byte) (parsed apiError) {
	if json.Unmarshal(body, &parsed) != nil {
		return apiError{}
	}
	return parsed
}

// errorText returns the API's error type and message, or the beginning of the body.
func errorText(body []byte) string {
	if parsed := parseError(body); parsed.Error != "" {
		return sources.Shorten(parsed.ErrorType+": "+parsed.Error, maxShownAnswer)
	}
	if len(body) == 0 {
		return "(empty body)"
	}
	return fmt.Sprintf("%q", sources.Shorten(string(body[:min(len(body), maxShownBytes)]), maxShownAnswer))
}

// queryErrorTypes lists the error types of the Prometheus API that the query causes.
var queryErrorTypes = []string{"bad_data", "execution"}
