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

// autoscalers writes the autoscalers of a page, one by one, so that none but the one
// that is being written takes memory.
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

// pageAsked returns what a query asks for of a list: how many items at most, 0 for
// all, and the name that they come after.
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

// continueAfter returns what asks for the page after a name. A name, and no number, is
// what stays true while autoscalers come and go.
func continueAfter(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// encodeListed returns an autoscaler of a list, without its decision and its events,
// which would be most of the response. Members of a cluster show the decision, too.
func encodeListed(view *Autoscaler, decided bool) ([]byte, error) {
	view.Events = nil
	if decided {
		return json.Marshal(view)
	}
	type plain Autoscaler // without MarshalJSON, which only converts the decision
	view.Decision = nil
	return json.Marshal((*plain)(view))
}

// abridge leaves out what a table of autoscalers does not show, which is most.
func (a *Autoscaler) abridge() {
	a.Spec.Behavior, a.Inputs, a.Labels, a.Restore = nil, nil, nil, nil
	a.Victims, a.VictimsError, a.Drains = nil, "", nil
	var bear []policy.Condition // others hold the conditions, too
	for _, condition := range a.Status.Conditions {
		if Bears(condition) {
			bear = append(bear, condition)
		}
	}
	a.Status.Conditions = bear
}

// Bears reports whether a condition bears on the count now: it stops the autoscaler or
// limits it, or the platform says it besides.
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

// explain writes one autoscaler's last decision, or that of another time.
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

// named finds the autoscaler that the path names, or writes 404.
func (h handlers) named(w http.ResponseWriter, r *http.Request) (Autoscaler, bool) {
	name := r.PathValue("name")
	view, ok := h.daemon.Autoscaler(name)
	if !ok {
		writeError(w, http.StatusNotFound, ErrorNotFound, fmt.Sprintf("no autoscaler named %q", name))
	}
	return view, ok
}

// listBuffer is how many bytes of a list are written at once.
const listBuffer = 64 << 10

// listWriter writes 200 with a list in the envelope, item by item.
type listWriter struct {
	w     http.ResponseWriter
	to    *bufio.Writer
	items int
	// size is the number of bytes so far, those that wait to be written included.
	size int
}

func newListWriter(w http.ResponseWriter) *listWriter {
	w.Header().Set("Content-Type", "application/json")
	l := &listWriter{w: w, to: bufio.NewWriterSize(w, listBuffer)}
	l.write(`{"status":"` + statusSuccess + `","data":[`)
	return l
}

// add writes an encoded item without secrets, and reports whether to go on. One that could not be
// encoded is an error by itself as long as nothing was written, and then breaks the
// response off, so that nobody takes it for the whole.
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

// end ends the list; more asks for what comes after it, and is empty where nothing
// does. It needs no escapes.
func (l *listWriter) end(more string) {
	l.write("]")
	if more != "" {
		l.write(`,"continue":"` + more + `"`)
	}
	l.write("}\n")
	_ = l.to.Flush() // the client went away
}

// write returns false once the client went away.
func (l *listWriter) write(text string) bool {
	l.size += len(text)
	_, err := l.to.WriteString(text)
	return err == nil
}

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
