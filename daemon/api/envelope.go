package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

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
func writeData(w http.ResponseWriter, data any) { writePage(w, data, "", nil) }

// writePage is writeData with a continuation and warnings.
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
		http.Error(w, "encode the response: "+redact.Text(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(redacted(encoded), '\n'))
}

// warnings are what the answer to a request says beside its data.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

type warningsKey struct{}

// Warn adds to the answer to the request of ctx what its data lack, as what a member of a
// cluster that does not answer has; each text once. Under a context of no request that
// may warn it does nothing.
func Warn(ctx context.Context, text string) {
	w, _ := ctx.Value(warningsKey{}).(*warnings)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

// MayWarn returns the request with a context for [Warn].
func MayWarn(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), warningsKey{}, new(warnings)))
}

// Warnings returns the warnings of a context of [MayWarn].
func Warnings(ctx context.Context) []string {
	w, _ := ctx.Value(warningsKey{}).(*warnings)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}
