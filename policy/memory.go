package policy

import "time"

// Memory is what an autoscaler remembers between passes (R21). The zero Memory
// is that of a new autoscaler (R25.3). The order and the slots of the lists
// matter: R55, R63 and R73 overwrite in place.
type Memory struct {
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	ScaleUpEvents   []ScaleEvent     `json:"scale_up_events,omitempty"`
	ScaleDownEvents []ScaleEvent     `json:"scale_down_events,omitempty"`
	// Missing has an entry for each metric with an OnMissing, in the order of the spec. It
	// is replaced, never changed.
	Missing []MissingMetric `json:"missing,omitempty"`
}

// Recommendation is a count that the metrics asked for, before stabilization
// and limits.
type Recommendation struct {
	Replicas int32     `json:"replicas"`
	Time     time.Time `json:"time"`
}

// ScaleEvent is a change of the count that was really written.
type ScaleEvent struct {
	// Change is the absolute difference, at least 0; the list it is in has the direction.
	Change int32     `json:"change"`
	Time   time.Time `json:"time"`
	// Outdated marks a slot that may be overwritten (R73). It still counts as
	// long as its time is inside a period (R65).
	Outdated bool `json:"outdated,omitempty"`
}
