package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hpad/hpad/policy"
)

// PauseRequest is the body of a request to pause.
type PauseRequest struct {
	// Direction is the direction in which changes are paused; empty means both directions.
	Direction policy.Direction `json:"direction,omitempty"`
	// For is the duration, such as "2h". If it is empty, the pause lasts until it is resumed.
	For    string `json:"for,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ScaleRequest is the body of a request to set a count.
type ScaleRequest struct {
	// Replicas is required.
	Replicas *int32 `json:"replicas"`
	// Force allows a count outside the bounds.
	Force bool `json:"force,omitempty"`
}

func requestedScope(r *http.Request) policy.Scope {
	return policy.Scope{Autoscaler: r.PathValue("name"), Fleet: r.PathValue("fleet")}
}

func (h handlers) pauses(w http.ResponseWriter, _ *http.Request) {
	writePage(w, append([]policy.Pause{}, h.daemon.Pauses()...), "", h.incomplete())
}

// pause pauses the scope that the path names, and writes the pause.
func (h handlers) pause(w http.ResponseWriter, r *http.Request) {
	var request PauseRequest
	if err := readBody(r, &request); err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	var lasts time.Duration
	if request.For != "" {
		var err error
		if lasts, err = time.ParseDuration(request.For); err != nil || lasts <= 0 {
			writeError(w, http.StatusBadRequest, ErrorBadData, fmt.Sprintf(`for = %q: must be a duration longer than 0s, such as "2h"`, request.For))
			return
		}
	}
	pause := policy.Pause{Scope: requestedScope(r), Direction: request.Direction, Reason: request.Reason, Author: Author(r.Context())}
	inForce, err := h.daemon.Pause(r.Context(), pause, lasts)
	if err != nil {
		writeActError(w, err)
		return
	}
	writePage(w, inForce, "", Warnings(r.Context()))
}

// resume ends the pause of the scope that the path names, and writes the ended pause.
func (h handlers) resume(w http.ResponseWriter, r *http.Request) {
	ended, err := h.daemon.Resume(r.Context(), requestedScope(r), Author(r.Context()))
	if err != nil {
		writeActError(w, err)
		return
	}
	writePage(w, ended, "", Warnings(r.Context()))
}

// scale sets the count of an autoscaler's target and writes the autoscaler.
func (h handlers) scale(w http.ResponseWriter, r *http.Request) {
	var request ScaleRequest
	err := readBody(r, &request)
	if err == nil && request.Replicas == nil {
		err = errors.New(`the body has no replicas: it must be an object such as {"replicas": 5}`)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	h.act(w, r, func(ctx context.Context, name string) error {
		return h.daemon.ScaleTo(ctx, name, *request.Replicas, request.Force, Author(ctx))
	})
}

// evaluate evaluates an autoscaler immediately and writes the autoscaler.
func (h handlers) evaluate(w http.ResponseWriter, r *http.Request) {
	h.act(w, r, h.daemon.EvaluateNow)
}

// restart requests a replacement of an autoscaler's instances and writes the autoscaler.
func (h handlers) restart(w http.ResponseWriter, r *http.Request) {
	h.act(w, r, h.daemon.Restart)
}

// act performs an action on the autoscaler that the path names, and then writes the autoscaler.
func (h handlers) act(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, name string) error) {
	name := r.PathValue("name")
	before, _ := h.daemon.Autoscaler(name)
	ctx, cancel := context.WithTimeout(r.Context(), writeTimeout/2)
	defer cancel()
	switch err := do(ctx, name); {
	case errors.Is(err, ErrUnknown):
		writeUnknown(w, name)
		return
	case err != nil:
		writeActError(w, err)
		return
	}
	after, ok := h.daemon.Autoscaler(name)
	if !ok { // the fleet has moved to another owner since the action
		after, after.Name = before, name
	}
	writePage(w, after, "", Warnings(r.Context()))
}

// readBody decodes the body of a write. If the body is empty, it leaves into unchanged.
func readBody(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(into); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("read the body: %w", err)
	case decoder.More():
		return errors.New("read the body: unexpected data after the object")
	}
	return nil
}

// writeActError writes the response for a failed action.
func writeActError(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrMoving) {
		w.Header().Set(movingHeader, "true")
	}
	switch {
	case errors.Is(err, ErrUnknownOutcome):
		writeError(w, http.StatusGatewayTimeout, ErrorUnknownOutcome, err.Error())
	case errors.Is(err, ErrUnknown):
		writeError(w, http.StatusNotFound, ErrorNotFound, err.Error())
	case errors.Is(err, ErrNotPaused) && !errors.Is(err, ErrRefused): // it is both if the results of the members differ
		writeError(w, http.StatusConflict, ErrorNotPaused, err.Error())
	case errors.Is(err, ErrRefused):
		writeError(w, http.StatusConflict, ErrorRefused, err.Error())
	case errors.Is(err, ErrUnstored):
		writeError(w, http.StatusServiceUnavailable, ErrorUnstored, err.Error())
	default:
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
	}
}
