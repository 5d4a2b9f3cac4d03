package api

import (
	"fmt"
	"net/http"
)

// autoscalers writes all autoscalers without their decisions and events, which
// would be most of the response.
func (h handlers) autoscalers(w http.ResponseWriter, _ *http.Request) {
	views := h.daemon.Autoscalers()
	list := make([]Autoscaler, len(views))
	for i, view := range views {
		view.Decision, view.Events = nil, nil
		list[i] = view
	}
	writeData(w, list)
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
