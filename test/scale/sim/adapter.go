package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/adapter"
)

// Adapter returns an adapter over HTTP, whose targets are the jobs. It contains the same details as the
// lists of Nomad.
func (w *World) Adapter() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var request adapter.Request
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		response := adapter.Response{ID: request.ID}
		switch request.Call {
		case adapter.Describe:
			response.Protocol = adapter.Protocol
		case adapter.Snapshot:
			response.Targets = w.targets(request.Targets)
		case adapter.Scale:
			response.Error = w.scaleTarget(&request)
		}
		_ = json.NewEncoder(rw).Encode(response)
	})
}

// targets returns the states of jobs.
func (w *World) targets(names []string) map[string]adapter.Target {
	w.mu.RLock()
	defer w.mu.RUnlock()
	found := make(map[string]adapter.Target, len(names))
	for _, name := range names {
		number, err := w.number(name)
		if err != nil {
			found[name] = adapter.Target{Error: &adapter.Error{Code: adapter.NotFound, Message: err.Error()}}
			continue
		}
		j := w.jobs[number]
		count := int32(j.count)
		target := adapter.Target{Count: &count, Version: strconv.FormatUint(j.specIndex, 10), Instances: []adapter.Instance{}}
		if j.deployment.status == "running" {
			target.Hold = &policy.Hold{Reason: "DeploymentActive", Message: "a deployment is active"}
		}
		for _, a := range j.allocs {
			if a.client == "complete" {
				continue
			}
			ready := a.client == "running" && a.healthIndex > 0
			phase := adapter.PhaseRunning
			if a.client == "pending" {
				phase = adapter.PhasePending
			}
			target.Instances = append(target.Instances, adapter.Instance{
				ID: a.id, Name: fmt.Sprintf("%s.app[%d]", a.jobID, a.number), Node: nodeName(a.node), Phase: phase,
				Terminating: a.desired == "stop", Ready: &ready, StartedAt: a.started.UTC().Truncate(time.Second), ReadyChanged: a.healthTime.UTC().Truncate(time.Second),
			})
		}
		found[name] = target
	}
	return found
}

// scaleTarget sets the count of a job.
func (w *World) scaleTarget(request *adapter.Request) *adapter.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	number, err := w.number(request.Target)
	if err != nil {
		return &adapter.Error{Code: adapter.NotFound, Message: err.Error()}
	}
	switch j := w.jobs[number]; {
	case j.deployment.status == "running":
		return &adapter.Error{Code: adapter.Held, Message: "a deployment is active"}
	case request.Version != strconv.FormatUint(j.specIndex, 10):
		return &adapter.Error{Code: adapter.Conflict, Message: "the job has changed"}
	}
	w.scale(number, int(*request.To), request.Reason, nil)
	return nil
}
