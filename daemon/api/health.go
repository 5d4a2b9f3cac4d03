package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/config"
)

// healthy writes 200 while the scheduler ticks and 503 when it does not. With
// "strict" it also writes 503 while any autoscaler is not being evaluated, or the last
// reload was refused.
func (h handlers) healthy(w http.ResponseWriter, r *http.Request) {
	strict, err := boolParameter(r, "strict")
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	health := h.daemon.Health()
	writeJSON(w, statusOf(health.Healthy && (!strict || health.Strictly())), health)
}

// ready writes 200 once the configuration is live, and 503 before and while the state cannot
// be written.
func (h handlers) ready(w http.ResponseWriter, _ *http.Request) {
	readiness := h.daemon.Readiness()
	writeJSON(w, statusOf(readiness.Ready), readiness)
}

// reload reads the configuration again. It goes on to its end when the client
// does not wait for the response.
func (h handlers) reload(w http.ResponseWriter, r *http.Request) {
	// Building fleets and sources may take longer than other responses; a writer
	// without deadlines needs none lifted.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	changes, err := h.daemon.Reload(context.WithoutCancel(r.Context()))
	writeChanges(w, changes, err)
}

// ReloadChanges is what a reload changed, or would change, in the order of keys.
type ReloadChanges struct {
	Changes []config.Change `json:"changes"`
}

func (h handlers) reloadChanges(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // as of a reload
	changes, err := h.daemon.ReloadChanges(r.Context())
	writeChanges(w, changes, err)
}

func writeChanges(w http.ResponseWriter, changes []config.Change, err error) {
	if err != nil {
		writeError(w, http.StatusInternalServerError, ErrorReload, err.Error())
		return
	}
	writeData(w, ReloadChanges{append([]config.Change{}, changes...)})
}

func statusOf(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// boolParameter reads a switch of the query: absent is false, without a value
// it is true.
func boolParameter(r *http.Request, name string) (bool, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return false, nil
	}
	text := query.Get(name)
	if text == "" {
		return true, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("parameter %s is %q: want true, false or no value", name, text)
	}
	return value, nil
}
