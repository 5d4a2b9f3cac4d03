package api

import (
	"context"
	"net/http"
	"slices"
	"sync"
)

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
