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

// The error types, with their HTTP status.
const (
	// ErrorBadData is for invalid requests (400).
	ErrorBadData ErrorType = "bad_data"
	// ErrorUnauthorized is for missing or wrong credentials (401). Only [Client] returns it: the
	// server's own response is not JSON.
	ErrorUnauthorized ErrorType = "unauthorized"
	// ErrorForbidden is for requests that are not allowed for the listener, client, Host or origin
	// (403).
	ErrorForbidden ErrorType = "forbidden"
	// ErrorNotFound is for unknown paths and autoscalers (404).
	ErrorNotFound ErrorType = "not_found"
	// ErrorMethod is for methods that the path does not support (405).
	ErrorMethod ErrorType = "method_not_allowed"
	// ErrorTooLarge is for large bodies (413).
	ErrorTooLarge ErrorType = "too_large"
	// ErrorMediaType is for bodies other than JSON (415).
	ErrorMediaType ErrorType = "unsupported_media_type"
	// ErrorTooMany is for clients above a limit (429).
	ErrorTooMany ErrorType = "too_many_requests"
	// ErrorRefused is for actions that are currently impossible; nothing was changed (409).
	ErrorRefused ErrorType = "refused"
	// ErrorUnknownOutcome is for actions that may have been performed, for example if the connection to
	// another member broke (504).
	ErrorUnknownOutcome ErrorType = "unknown_outcome"
	// ErrorNotPaused is for attempts to end a pause that does not exist (409).
	ErrorNotPaused ErrorType = "not_paused"
	// ErrorReload is for a rejected reload; the previous configuration remains active (500).
	ErrorReload ErrorType = "reload"
	// ErrorUnavailable is for targets that have not been read yet (503).
	ErrorUnavailable ErrorType = "unavailable"
	// ErrorUnstored is for changes that are active, but not stored (503).
	ErrorUnstored ErrorType = "unstored"
	// ErrorInternal is for all other errors of hpad (500).
	ErrorInternal ErrorType = "internal"
)

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

// writeData writes a 200 response with data in the envelope.
func writeData(w http.ResponseWriter, data any) { writePage(w, data, "", nil) }

// writePage is like writeData, but adds a continuation token and warnings.
func writePage(w http.ResponseWriter, data any, more string, warnings []string) {
	body := envelope{Status: statusSuccess, Continue: more, Warnings: warnings}
	if data != nil {
		encoded, err := json.Marshal(data)
		if err != nil {
			writeError(w, http.StatusInternalServerError, ErrorInternal, "encode the response: "+err.Error())
			return
		}
		body.Data = encoded
	}
	writeJSON(w, http.StatusOK, body)
}

func writeError(w http.ResponseWriter, status int, kind ErrorType, message string) {
	writeJSON(w, status, envelope{Status: statusError, ErrorType: kind, Error: message})
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
	w.Header().Set("Content-Type", "application/json")
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
