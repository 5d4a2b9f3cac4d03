package api

import (
	"encoding/json"
	"net/http"

	"github.com/hpad/hpad/daemon/redact"
)

// ErrorType is the machine-readable kind of an error in a response.
type ErrorType string

// The error types.
const (
	// ErrorBadData: the request makes no sense (400).
	ErrorBadData ErrorType = "bad_data"
	// ErrorUnauthorized: a name and a password are needed, and were missing or
	// wrong (401). Only [Client] says so: the server's own response is no JSON.
	ErrorUnauthorized ErrorType = "unauthorized"
	// ErrorForbidden: not over this listener, not for this client, not under this
	// name, or not from another site (403).
	ErrorForbidden ErrorType = "forbidden"
	// ErrorNotFound: no such path or no such autoscaler (404).
	ErrorNotFound ErrorType = "not_found"
	// ErrorMethod: the path exists, but not for this method (405).
	ErrorMethod ErrorType = "method_not_allowed"
	// ErrorTooLarge: the body is too large (413).
	ErrorTooLarge ErrorType = "too_large"
	// ErrorMediaType: the body is not JSON (415).
	ErrorMediaType ErrorType = "unsupported_media_type"
	// ErrorTooMany: more than one client may ask for (429).
	ErrorTooMany ErrorType = "too_many_requests"
	// ErrorRefused: it cannot be done as things are, and nothing was changed (409).
	ErrorRefused ErrorType = "refused"
	// ErrorNotPaused: there is no pause to end (409).
	ErrorNotPaused ErrorType = "not_paused"
	// ErrorReload: the configuration could not be reloaded; the old one is in
	// force (500).
	ErrorReload ErrorType = "reload"
	// ErrorInternal: hpad's own fault (500).
	ErrorInternal ErrorType = "internal"
)

// The words of an envelope's status.
const (
	statusSuccess = "success"
	statusError   = "error"
)

// envelope is what every response of the API is wrapped in.
type envelope struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data,omitempty"`
	ErrorType ErrorType       `json:"errorType,omitempty"`
	Error     string          `json:"error,omitempty"`
	// Continue is the continuation of an incomplete response; empty otherwise.
	Continue string `json:"continue,omitempty"`
	// Warnings say what the data lack.
	Warnings []string `json:"warnings,omitempty"`
}

// writeData writes 200 with data in the envelope. Nil data leaves it out.
func writeData(w http.ResponseWriter, data any) { writeWarned(w, data, nil) }

// writeWarned writes as writeData does, with what the data lack.
func writeWarned(w http.ResponseWriter, data any, warnings []string) {
	writePage(w, data, "", warnings)
}

// writePage writes as writeWarned does, with a continuation.
func writePage(w http.ResponseWriter, data any, more string, warnings []string) {
	answer := envelope{Status: statusSuccess, Continue: more, Warnings: warnings}
	if data != nil {
		encoded, err := json.Marshal(data)
		if err != nil {
			writeError(w, http.StatusInternalServerError, ErrorInternal, "encode the answer: "+err.Error())
			return
		}
		answer.Data = encoded
	}
	writeJSON(w, http.StatusOK, answer)
}

// writeError writes an error in the envelope.
func writeError(w http.ResponseWriter, status int, kind ErrorType, message string) {
	writeJSON(w, status, envelope{Status: statusError, ErrorType: kind, Error: message})
}

// writeJSON writes body without secrets. All JSON responses use it, except lists, which have
// listWriter, and the configuration.
func writeJSON(w http.ResponseWriter, status int, body any) {
	writeEncoded(w, status, body, redact.JSON)
}

// writeEncoded writes body as redacted returns it. A body that cannot be encoded is an
// error by itself, before anything was written.
func writeEncoded(w http.ResponseWriter, status int, body any, redacted func(encoded []byte) []byte) {
	encoded, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "encode the answer: "+redact.Text(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(redacted(encoded), '\n'))
}
