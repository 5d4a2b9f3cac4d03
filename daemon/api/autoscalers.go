package api

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
)

// ListQuery contains the parameters of a list of autoscalers.
type ListQuery struct {
	// Limit is the maximum number of items; all by default.
	Limit int `toml:"limit" min:"1"`
	// Continue is the value of continue in the response with the previous page.
	Continue string `toml:"continue"`
	// Brief omits the fields that a table of autoscalers does not show: spec.behavior, inputs, labels,
	// restore, victims, victims_error, drains, and conditions that do not affect the count.
	Brief bool `toml:"brief"`
}

// autoscalers encodes and writes one autoscaler at a time, to limit memory use for a large list.
func (h handlers) autoscalers(w http.ResponseWriter, r *http.Request, in ListQuery) {
	after, err := base64.RawURLEncoding.DecodeString(in.Continue)
	if err != nil {
		writeError(w, ErrorBadData, fmt.Sprintf("continue = %q: must be the value from a response", in.Continue))
		return
	}
	list := newListWriter(w)
	last := "" // unlike an offset, a name remains correct when autoscalers are added or removed
	for view := range h.daemon.AutoscalersAfter(string(after)) {
		if in.Limit > 0 && list.items == in.Limit {
			h.warnIncomplete(r)
			list.end(base64.RawURLEncoding.EncodeToString([]byte(last)), Warnings(r.Context()))
			return
		}
		if in.Brief {
			view.abridge()
		}
		if !list.add(encodeListed(&view, r.Header.Get(MemberHeader) != "")) {
			return
		}
		last = view.Name
	}
	h.warnIncomplete(r)
	list.end("", Warnings(r.Context()))
}

// encodeListed returns an autoscaler without its events and, unless decided is set, without its
// decision.
func encodeListed(view *Autoscaler, decided bool) ([]byte, error) {
	view.Events = nil
	if decided {
		return json.Marshal(view)
	}
	type plain Autoscaler // has no MarshalJSON method, which is only needed for the decision
	view.Decision = nil
	return json.Marshal((*plain)(view))
}

// abridge removes the fields that a table of autoscalers does not need.
func (a *Autoscaler) abridge() {
	a.Spec.Behavior, a.Inputs, a.Labels, a.Restore = nil, nil, nil, nil
	a.Victims, a.VictimsError, a.Drains = nil, "", nil
	var bear []policy.Condition // a new slice, because views share their conditions
	for _, condition := range a.Status.Conditions {
		if AffectsCount(condition) {
			bear = append(bear, condition)
		}
	}
	a.Status.Conditions = bear
}

// AffectsCount reports whether a condition affects the count now: it stops or limits the
// autoscaler, or is an extra condition of the platform.
func AffectsCount(condition policy.Condition) bool {
	is := condition.Status == policy.ConditionTrue
	switch condition.Type {
	case policy.ScalingActive:
		return !is
	case policy.AbleToScale:
		return !is || condition.Reason == "ScaleDownStabilized" || condition.Reason == "ScaleUpStabilized"
	}
	return is
}

func (h handlers) autoscaler(r *http.Request, _ none) (Autoscaler, error) {
	defer h.warnIncomplete(r)
	return h.named(r)
}

// ExplainQuery contains the parameter of an explanation.
type ExplainQuery struct {
	// At selects the newest decision that was recorded at or before this time. The spec and the inputs
	// of the response are the current ones.
	At time.Time `toml:"at"`
}

func (h handlers) explain(r *http.Request, in ExplainQuery) (Explanation, error) {
	view, err := h.named(r)
	if err != nil || in.At.IsZero() {
		h.warnIncomplete(r)
		return view.Explanation(), err
	}
	leave, err := h.enter(r.Context())
	if err != nil {
		return Explanation{}, err
	}
	defer leave()
	return ExplainAt(r.Context(), h.daemon, view, in.At)
}

func (h handlers) discovery(r *http.Request, _ none) ([]Discovered, error) {
	defer h.warnIncomplete(r)
	return append([]Discovered{}, h.daemon.Discovered()...), nil
}

// named returns the autoscaler that the path names.
func (h handlers) named(r *http.Request) (Autoscaler, error) {
	name := r.PathValue("name")
	view, ok := h.daemon.Autoscaler(name)
	if !ok {
		return view, unknownName(name)
	}
	return view, nil
}

func unknownName(name string) error {
	return &failure{ErrorNotFound, fmt.Errorf("no autoscaler named %q", name)}
}

const listBuffer = 64 << 10

// listWriter writes a 200 response with a list in the envelope, one item at a time.
type listWriter struct {
	w     http.ResponseWriter
	to    *bufio.Writer
	items int
	// size is the number of bytes written so far, including buffered ones.
	size int
}

func newListWriter(w http.ResponseWriter) *listWriter {
	w.Header().Set("Content-Type", "application/json")
	l := &listWriter{w: w, to: bufio.NewWriterSize(w, listBuffer)}
	l.write(`{"status":"` + statusSuccess + `","data":[`)
	return l
}

// add writes an encoded item without secrets, and reports whether the caller may add more items.
// If err is not nil and nothing has been sent yet, add writes an error response. Otherwise it
// aborts the response, so that the client can detect that the list is incomplete.
func (l *listWriter) add(item []byte, err error) bool {
	if err != nil {
		if l.to.Buffered() < l.size {
			panic(http.ErrAbortHandler)
		}
		writeError(l.w, ErrorInternal, "encode the response: "+err.Error())
		return false
	}
	if l.items > 0 {
		l.write(",")
	}
	l.items++
	return l.write(string(redact.JSON(item)))
}

// end ends the list. more is the continuation token, or "" if the list is complete.
func (l *listWriter) end(more string, warnings []string) {
	rest, _ := json.Marshal(struct { // cannot fail: all fields are strings
		Continue string   `json:"continue,omitempty"`
		Warnings []string `json:"warnings,omitempty"`
	}{more, warnings})
	l.write("]")
	if len(rest) > len("{}") {
		l.write(",")
	}
	l.write(string(redact.JSON(rest)[1:]) + "\n")
	_ = l.to.Flush() // an error means that the client has disconnected
}

// write returns false if the client has disconnected.
func (l *listWriter) write(text string) bool {
	l.size += len(text)
	_, err := l.to.WriteString(text)
	return err == nil
}

// InstanceList lists the instances of a target.
type InstanceList struct {
	// Time is when the target was read, or zero if it was not read.
	Time time.Time `json:"time,omitzero"`
	// Error is the reason why the target could not be read, or empty if it was read.
	Error string `json:"error,omitempty"`
	// Instances lists the instances in the platform's order.
	Instances []Instance `json:"instances"`
	// Failed lists the per-instance metrics that could not be measured.
	Failed []FailedMetric `json:"failed,omitempty"`
}

// Counts counts the instances by state.
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
	// Task is set for ContainerResource metrics.
	Task  string `json:"task,omitempty"`
	Error string `json:"error"`
}

// Instance is one instance of a target.
type Instance struct {
	ID string `json:"id"`
	// Name is the instance's name on the platform if it differs from the ID. Node is the host
	// that runs the instance; empty if it is unknown.
	Name string `json:"name,omitempty"`
	Node string `json:"node,omitempty"`
	// Address is the instance's host and port, or its host alone if it has no port. It is empty if
	// the address is unknown.
	Address string `json:"address,omitempty"`
	// Phase is Pending, Running, Succeeded, Failed or Unknown, as in Kubernetes. Readiness is True,
	// False or Unknown; empty if the platform does not report it. ReadinessChanged is the time when
	// it last changed.
	Phase            string    `json:"phase"`
	Readiness        string    `json:"readiness,omitempty"`
	ReadinessChanged time.Time `json:"readiness_changed,omitzero"`
	// Started is the time when the instance was assigned to its host, or zero if it is unknown.
	Started time.Time `json:"started,omitzero"`
	// Deleting means that the instance is being stopped. Protected means that the platform does
	// not remove it in a scale-down.
	Deleting  bool `json:"deleting,omitempty"`
	Protected bool `json:"protected,omitempty"`
	// UnreadyReason is the reason why the instance is not ready, at most 200 characters. It is
	// empty if the instance is ready, is being stopped, or the reason is unknown.
	UnreadyReason string `json:"unready_reason,omitempty"`
	// HealthOutput is the output of the last health check of an instance that is not ready, at most
	// 200 characters. It is empty if there is none, or if the client may not read the output of
	// instances.
	HealthOutput string `json:"health_output,omitempty"`
	// Metrics lists the per-instance metrics in the order of the spec, without failed metrics.
	Metrics []InstanceMetric `json:"metrics,omitempty"`
	// LastOutput is the last line of output of a failing instance, at most 200 characters. It is
	// empty if it is unknown, or if the client may not read the output of instances.
	LastOutput string `json:"last_output,omitempty"`
	// Failing reports whether the instance is failing. The daemon reads LastOutput only for
	// these instances.
	Failing bool `json:"-"`
}

// WithoutOutput returns a copy of the list without the output of instances, for clients that may
// not read it.
func (l InstanceList) WithoutOutput() InstanceList {
	l.Instances = slices.Clone(l.Instances)
	for i := range l.Instances {
		l.Instances[i].LastOutput, l.Instances[i].HealthOutput = "", ""
	}
	return l
}

// InstanceMetric is the value of a metric for one instance.
type InstanceMetric struct {
	Type policy.MetricType `json:"type"`
	Name string            `json:"name"`
	// Task is set for ContainerResource metrics.
	Task string `json:"task,omitempty"`
	// Binary is set if the target value is written with a binary unit, such as "100Mi".
	Binary bool `json:"binary,omitempty"`
	policy.Measured
}

func (h handlers) instances(r *http.Request, _ none) (InstanceList, error) {
	view, err := h.named(r)
	if err != nil {
		return InstanceList{}, err
	}
	list, err := h.daemon.InstancesOf(r.Context(), view.Name)
	list.Instances = append([]Instance{}, list.Instances...) // encode an empty list as []
	if _, denied := h.access(r); denied != nil {
		list = list.WithoutOutput()
	}
	return list, err
}
