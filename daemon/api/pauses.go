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
	// Direction is "up" or "down" if the pause holds only one direction; empty means both.
	Direction policy.Direction `json:"direction,omitempty"`
	// For is the duration, such as "2h". Without it, the pause lasts until it is resumed.
	For string `json:"for,omitempty" example:"2h"`
	// Reason is shown together with the pause, at most 500 bytes.
	Reason string `json:"reason,omitempty" maxLength:"500" example:"migration of the database"`
}

// ScaleRequest is the body of a request to set a count.
type ScaleRequest struct {
	// Replicas is the count, which is required. 0 disables the autoscaler.
	Replicas *int32 `json:"replicas" min:"0" example:"8"`
	// Force allows a count outside the bounds.
	Force bool `json:"force,omitempty"`
}

func requestedScope(r *http.Request) policy.Scope {
	return policy.Scope{Autoscaler: r.PathValue("name"), Fleet: r.PathValue("fleet")}
}

func (h handlers) pauses(r *http.Request, _ none) ([]policy.Pause, error) {
	defer h.warnIncomplete(r)
	return append([]policy.Pause{}, h.daemon.Pauses()...), nil
}

func (h handlers) pause(r *http.Request, in PauseRequest) (policy.Pause, error) {
	var lasts time.Duration
	if in.For != "" {
		var err error
		if lasts, err = time.ParseDuration(in.For); err != nil || lasts <= 0 {
			return policy.Pause{}, &failure{ErrorBadData, fmt.Errorf(`for = %q: must be a duration longer than 0s, such as "2h"`, in.For)}
		}
	}
	pause := policy.Pause{Scope: requestedScope(r), Direction: in.Direction, Reason: in.Reason, Author: Author(r.Context())}
	return h.daemon.Pause(r.Context(), pause, lasts)
}

func (h handlers) resume(r *http.Request, _ none) (policy.Pause, error) {
	return h.daemon.Resume(r.Context(), requestedScope(r), Author(r.Context()))
}

func (h handlers) scale(r *http.Request, in ScaleRequest) (Autoscaler, error) {
	if in.Replicas == nil {
		return Autoscaler{}, &failure{ErrorBadData, errors.New(`the body has no replicas: it must be an object such as {"replicas": 5}`)}
	}
	return h.act(r, func(ctx context.Context, name string) error {
		return h.daemon.ScaleTo(ctx, name, *in.Replicas, in.Force, Author(ctx))
	})
}

func (h handlers) evaluate(r *http.Request, _ none) (Autoscaler, error) {
	return h.act(r, h.daemon.EvaluateNow)
}

func (h handlers) restart(r *http.Request, _ none) (Autoscaler, error) {
	return h.act(r, h.daemon.Restart)
}

// act performs an action on the autoscaler that the path names, and then returns the autoscaler.
func (h handlers) act(r *http.Request, do func(ctx context.Context, name string) error) (Autoscaler, error) {
	name := r.PathValue("name")
	before, _ := h.daemon.Autoscaler(name)
	ctx, cancel := context.WithTimeout(r.Context(), writeTimeout/2)
	defer cancel()
	if err := do(ctx, name); errors.Is(err, ErrUnknown) {
		return Autoscaler{}, unknownName(name)
	} else if err != nil {
		return Autoscaler{}, err
	}
	after, ok := h.daemon.Autoscaler(name)
	if !ok { // the fleet has moved to another owner since the action
		after, after.Name = before, name
	}
	return after, nil
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
