package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/hpad/hpad/daemon/redact"
)

// ErrorType is the machine-readable type of an error in a response.
type ErrorType string

// The error types. docs/api.md contains the comments.
const (
	// ErrorBadData is for invalid parameters and bodies.
	ErrorBadData ErrorType = "bad_data"
	// ErrorUnauthorized is for missing or wrong credentials. Only [Client] returns it: the server's own
	// response is not JSON.
	ErrorUnauthorized ErrorType = "unauthorized"
	// ErrorForbidden is for writes and restricted reads by clients without write access or by other
	// web sites, and for requests over TCP with a Host header that hpad does not accept.
	ErrorForbidden ErrorType = "forbidden"
	// ErrorNotFound is for paths, autoscalers and fleets that do not exist.
	ErrorNotFound ErrorType = "not_found"
	// ErrorMethod is for methods that the path does not support.
	ErrorMethod ErrorType = "method_not_allowed"
	// ErrorTooLarge is for bodies of more than 64 KiB.
	ErrorTooLarge ErrorType = "too_large"
	// ErrorMediaType is for bodies that are not JSON.
	ErrorMediaType ErrorType = "unsupported_media_type"
	// ErrorTooMany is for clients with too many concurrent requests or long responses, and for
	// requests while too many others read the history. Retry-After contains the seconds to wait.
	ErrorTooMany ErrorType = "too_many_requests"
	// ErrorRefused is for actions that hpad cannot perform now, for example in a dry run or while the
	// platform blocks changes to the target. hpad changed nothing.
	ErrorRefused ErrorType = "refused"
	// ErrorUnknownOutcome is for actions that may have been performed: the connection to the owner of the
	// fleet broke, or the call took too long.
	ErrorUnknownOutcome ErrorType = "unknown_outcome"
	// ErrorNotPaused is for attempts to end a pause that does not exist.
	ErrorNotPaused ErrorType = "not_paused"
	// ErrorReload is for configurations that hpad rejects. The previous configuration is still active.
	ErrorReload ErrorType = "reload"
	// ErrorUnavailable is for targets that have not been read since hpad started.
	ErrorUnavailable ErrorType = "unavailable"
	// ErrorUnstored is for active changes that hpad could not store. A restart could lose them.
	ErrorUnstored ErrorType = "unstored"
	// ErrorInternal is for internal errors of hpad.
	ErrorInternal ErrorType = "internal"
)

// status returns the HTTP status of a type.
func (t ErrorType) status() int {
	return map[ErrorType]int{
		ErrorBadData: http.StatusBadRequest, ErrorUnauthorized: http.StatusUnauthorized, ErrorForbidden: http.StatusForbidden,
		ErrorNotFound: http.StatusNotFound, ErrorMethod: http.StatusMethodNotAllowed, ErrorTooLarge: http.StatusRequestEntityTooLarge,
		ErrorMediaType: http.StatusUnsupportedMediaType, ErrorTooMany: http.StatusTooManyRequests, ErrorRefused: http.StatusConflict,
		ErrorUnknownOutcome: http.StatusGatewayTimeout, ErrorNotPaused: http.StatusConflict, ErrorReload: http.StatusInternalServerError,
		ErrorUnavailable: http.StatusServiceUnavailable, ErrorUnstored: http.StatusServiceUnavailable, ErrorInternal: http.StatusInternalServerError,
	}[t]
}

// mediaJSON is the media type of JSON.
const mediaJSON = "application/json"

const (
	statusSuccess = "success"
	statusError   = "error"
)

// envelope is the outer JSON object of API responses.
type envelope struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data,omitempty"`
	ErrorType ErrorType       `json:"errorType,omitempty"`
	Error     string          `json:"error,omitempty"`
	// Continue is the continuation token if the response is incomplete, and empty otherwise.
	Continue string `json:"continue,omitempty"`
	// Warnings lists the reasons why data is missing.
	Warnings []string `json:"warnings,omitempty"`
}

// writePage writes a 200 response with data, a continuation token and warnings in the envelope.
func writePage(w http.ResponseWriter, data any, more string, warnings []string) {
	body := envelope{Status: statusSuccess, Continue: more, Warnings: warnings}
	if data != nil {
		encoded, err := json.Marshal(data)
		if err != nil {
			writeError(w, ErrorInternal, "encode the response: "+err.Error())
			return
		}
		body.Data = encoded
	}
	writeJSON(w, http.StatusOK, body)
}

func writeError(w http.ResponseWriter, kind ErrorType, message string) {
	writeRejection(w, &Error{Status: kind.status(), Type: kind, Message: message})
}

// writeRejection writes an error that a member of the cluster returned.
func writeRejection(w http.ResponseWriter, err *Error) {
	writeJSON(w, err.Status, envelope{Status: statusError, ErrorType: err.Type, Error: err.Message})
}

// writeJSON writes a body without secrets. It writes all JSON responses except lists (see
// listWriter) and the configuration.
func writeJSON(w http.ResponseWriter, status int, body any) {
	writeEncoded(w, status, body, redact.JSON)
}

// writeEncoded encodes a body, applies redacted to it, and writes the result.
func writeEncoded(w http.ResponseWriter, status int, body any, redacted func(encoded []byte) []byte) {
	encoded, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "encode the response: "+redact.Text(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(redacted(encoded), '\n'))
}

type warningsKey struct{}

// Warn adds a warning to the response of the request that ctx belongs to, for example about an
// unreachable member. It ignores duplicates. It does nothing if ctx does not come from
// [WithWarnings]. It must be called by the goroutine that handles the request.
func Warn(ctx context.Context, text string) {
	texts, _ := ctx.Value(warningsKey{}).(*[]string)
	if texts != nil && !slices.Contains(*texts, text) {
		*texts = append(*texts, text)
	}
}

// WithWarnings returns a copy of the request whose context accepts warnings from [Warn].
func WithWarnings(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), warningsKey{}, new([]string)))
}

// Warnings returns the warnings that were added to a context from [WithWarnings].
func Warnings(ctx context.Context) []string {
	if texts, _ := ctx.Value(warningsKey{}).(*[]string); texts != nil {
		return *texts
	}
	return nil
}
