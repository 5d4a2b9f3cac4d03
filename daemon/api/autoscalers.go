package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hpad/hpad/policy"
)

// autoscalers writes the autoscalers of a page, one by one, so that none but the one
// that is being written takes memory.
func (h handlers) autoscalers(w http.ResponseWriter, r *http.Request) {
	limit, after, err := pageAsked(r.URL.Query())
	brief := false
	if text := r.URL.Query().Get("brief"); text != "" && err == nil {
		if brief, err = strconv.ParseBool(text); err != nil {
			err = fmt.Errorf("brief = %q: must be true or false", text)
		}
	}
	if err != nil {
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
func pageAsked(query url.Values) (limit int, after string, err error) {
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return 0, "", fmt.Errorf("limit = %q: must be a whole number of at least 1", text)
		}
	}
	text := query.Get("continue")
	name, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return 0, "", fmt.Errorf("continue = %q: must be what an answer had there", text)
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
		encoded, err := json.Marshal(view)
		return encoded, err
	}
	type plain Autoscaler // whose decision needs no care: it has none
	view.Decision = nil
	encoded, err := json.Marshal((*plain)(view))
	return encoded, err
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
