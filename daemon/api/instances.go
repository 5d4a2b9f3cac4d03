package api

import (
	"net/http"
	"time"

	"github.com/hpad/hpad/policy"
)

// InstanceList is the instances of one target.
type InstanceList struct {
	// Time is when they were read.
	Time time.Time `json:"time"`
	// Error is why the target could not be read; empty when it was.
	Error string `json:"error,omitempty"`
	// Instances are in the platform's order, which hpad keeps.
	Instances []Instance `json:"instances"`
	// Failed are the metrics on instances of which nothing could be measured.
	Failed []FailedMetric `json:"failed,omitempty"`
}

// Counts counts the instances by their state.
func (l *InstanceList) Counts() (n Instances) {
	for i := range l.Instances {
		one := &l.Instances[i]
		n.Add(one.Phase, one.Readiness, one.Deleting)
	}
	return n
}

// FailedMetric is a metric that could not be measured.
type FailedMetric struct {
	Type policy.MetricType `json:"type"`
	Name string            `json:"name"`
	// Task is that of a ContainerResource metric.
	Task  string `json:"task,omitempty"`
	Error string `json:"error"`
}

// Instance is one instance of a target.
type Instance struct {
	ID string `json:"id"`
	// Name is the platform's, where that is not the id, and Node the machine it runs on;
	// empty where the platform has none.
	Name string `json:"name,omitempty"`
	Node string `json:"node,omitempty"`
	// Phase and Readiness are upstream's words; Readiness is empty where nothing is known
	// of it. ReadinessChanged is when that changed last.
	Phase            string    `json:"phase"`
	Readiness        string    `json:"readiness,omitempty"`
	ReadinessChanged time.Time `json:"readiness_changed,omitzero"`
	// Started is when its machine accepted it; zero when that is not known.
	Started time.Time `json:"started,omitzero"`
	// Deleting reports whether it is being stopped, Protected whether the platform keeps
	// it when the count goes down.
	Deleting  bool `json:"deleting,omitempty"`
	Protected bool `json:"protected,omitempty"`
	// Metrics are what the metrics on instances measured of it, in the order of the spec;
	// without those that failed.
	Metrics []InstanceMetric `json:"metrics,omitempty"`
}

// InstanceMetric is what a metric measured of one instance.
type InstanceMetric struct {
	Type policy.MetricType `json:"type"`
	Name string            `json:"name"`
	// Task is that of a ContainerResource metric.
	Task string `json:"task,omitempty"`
	policy.Measured
}

func (h handlers) instances(w http.ResponseWriter, r *http.Request) {
	view, ok := h.named(w, r)
	if !ok {
		return
	}
	list, err := h.daemon.InstancesOf(r.Context(), view.Name)
	if err != nil {
		writeActError(w, err)
		return
	}
	list.Instances = append([]Instance{}, list.Instances...) // none is an empty list
	writeData(w, list)
}
