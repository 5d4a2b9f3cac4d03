package api

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
)

// autoscalers encodes and writes one autoscaler at a time, to limit the memory of a large list.
func (h handlers) autoscalers(w http.ResponseWriter, r *http.Request) {
	limit, after, err1 := requestedPage(r.URL.Query())
	brief, err2 := boolParameter(r, "brief", false)
	if err := cmp.Or(err1, err2); err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	list := newListWriter(w)
	last := ""
	for view := range h.daemon.AutoscalersAfter(after) {
		if limit > 0 && list.items == limit {
			list.end(continueAfter(last))
			return
		}
		if brief {
			view.abridge()
		}
		if !list.add(encodeListed(&view, r.Header.Get(MemberHeader) != "")) {
			return
		}
		last = view.Name
	}
	list.end("")
}

// requestedPage returns the maximum number of items, 0 for all, and the name before the first item.
func requestedPage(query url.Values) (limit int, after string, err error) {
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return 0, "", fmt.Errorf("limit = %q: must be a whole number of at least 1", text)
		}
	}
	text := query.Get("continue")
	name, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return 0, "", fmt.Errorf("continue = %q: must be the value from a response", text)
	}
	return limit, string(name), nil
}

// continueAfter returns the continuation after a name. Unlike a number, a name stays correct while
// autoscalers are added and removed.
func continueAfter(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// encodeListed returns an autoscaler without its events and, unless decided is set, without its
// decision.
func encodeListed(view *Autoscaler, decided bool) ([]byte, error) {
	view.Events = nil
	if decided {
		return json.Marshal(view)
	}
	type plain Autoscaler // without MarshalJSON, which only converts the decision
	view.Decision = nil
	return json.Marshal((*plain)(view))
}

// abridge removes the fields that a table of autoscalers does not show.
func (a *Autoscaler) abridge() {
	a.Spec.Behavior, a.Inputs, a.Labels, a.Restore = nil, nil, nil, nil
	a.Victims, a.VictimsError, a.Drains = nil, "", nil
	var bear []policy.Condition // the views share the conditions
	for _, condition := range a.Status.Conditions {
		if Bears(condition) {
			bear = append(bear, condition)
		}
	}
	a.Status.Conditions = bear
}

// Bears reports whether a condition affects the count now: it stops or limits the autoscaler, or is
// an extra condition of the platform.
func Bears(condition policy.Condition) bool {
	is := condition.Status == policy.ConditionTrue
	switch condition.Type {
	case policy.ScalingActive:
		return !is
	case policy.AbleToScale:
		return !is || condition.Reason == "ScaleDownStabilized" || condition.Reason == "ScaleUpStabilized"
	}
	return is
}

func (h handlers) autoscaler(w http.ResponseWriter, r *http.Request) {
	if view, ok := h.named(w, r); ok {
		writeData(w, view)
	}
}

// explain writes the last decision of an autoscaler, or that of another time.
func (h handlers) explain(w http.ResponseWriter, r *http.Request) {
	view, ok := h.named(w, r)
	if !ok {
		return
	}
	if at := r.URL.Query().Get("at"); at != "" {
		h.explainAt(w, r, view, at)
		return
	}
	writeData(w, view.Explanation())
}

func (h handlers) discovery(w http.ResponseWriter, _ *http.Request) {
	list := h.daemon.Discovered()
	if list == nil {
		list = []Discovered{}
	}
	writeData(w, list)
}

// named returns the autoscaler in the path, or writes 404.
func (h handlers) named(w http.ResponseWriter, r *http.Request) (Autoscaler, bool) {
	name := r.PathValue("name")
	view, ok := h.daemon.Autoscaler(name)
	if !ok {
		writeError(w, http.StatusNotFound, ErrorNotFound, fmt.Sprintf("no autoscaler named %q", name))
	}
	return view, ok
}

const listBuffer = 64 << 10

// listWriter writes 200 with a list in the envelope, item by item.
type listWriter struct {
	w     http.ResponseWriter
	to    *bufio.Writer
	items int
	// size is the number of bytes so far, including buffered ones.
	size int
}

func newListWriter(w http.ResponseWriter) *listWriter {
	w.Header().Set("Content-Type", "application/json")
	l := &listWriter{w: w, to: bufio.NewWriterSize(w, listBuffer)}
	l.write(`{"status":"` + statusSuccess + `","data":[`)
	return l
}

// add writes an encoded item without secrets, and reports whether the list may continue. An
// encoding error is the response if nothing was sent yet; later it aborts the response, so that the
// client does not take it for complete.
func (l *listWriter) add(item []byte, err error) bool {
	if err != nil {
		if l.to.Buffered() < l.size {
			panic(http.ErrAbortHandler)
		}
		writeError(l.w, http.StatusInternalServerError, ErrorInternal, "encode the response: "+err.Error())
		return false
	}
	if l.items > 0 {
		l.write(",")
	}
	l.items++
	return l.write(string(redact.JSON(item)))
}

// end ends the list. The continuation is empty at the end of the whole list and needs no escapes.
func (l *listWriter) end(more string) {
	l.write("]")
	if more != "" {
		l.write(`,"continue":"` + more + `"`)
	}
	l.write("}\n")
	_ = l.to.Flush() // the client disconnected
}

// write returns false after the client has disconnected.
func (l *listWriter) write(text string) bool {
	l.size += len(text)
	_, err := l.to.WriteString(text)
	return err == nil
}

// InstanceList lists the instances of a target.
type InstanceList struct {
	// Time is the time of the reading.
	Time time.Time `json:"time"`
	// Error is the reason why the target could not be read; empty if it was.
	Error string `json:"error,omitempty"`
	// Instances are in the order of the platform.
	Instances []Instance `json:"instances"`
	// Failed are the per-instance metrics that could not be measured.
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
	// Name is the platform's name if it differs from the ID, Node the host of the instance; either
	// may be empty.
	Name string `json:"name,omitempty"`
	Node string `json:"node,omitempty"`
	// Phase and Readiness have the values of upstream; Readiness is empty if it is unknown.
	// ReadinessChanged is its last change.
	Phase            string    `json:"phase"`
	Readiness        string    `json:"readiness,omitempty"`
	ReadinessChanged time.Time `json:"readiness_changed,omitzero"`
	// Started is when the instance was assigned to its host; zero if it is unknown.
	Started time.Time `json:"started,omitzero"`
	// Deleting means that it is being stopped, Protected that the platform does not remove it in a
	// scale-down.
	Deleting  bool `json:"deleting,omitempty"`
	Protected bool `json:"protected,omitempty"`
	// Metrics are the per-instance metrics, in the order of the spec, without failed ones.
	Metrics []InstanceMetric `json:"metrics,omitempty"`
}

// InstanceMetric is the value of a metric for one instance.
type InstanceMetric struct {
	Type policy.MetricType `json:"type"`
	Name string            `json:"name"`
	// Task is set for ContainerResource metrics.
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
	list.Instances = append([]Instance{}, list.Instances...) // encode no instances as []
	writeData(w, list)
}
