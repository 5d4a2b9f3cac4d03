package policy

import "time"

// Memory is the state of an autoscaler between passes (R21). It starts as the zero Memory
// (R25.3). The order of the lists matters: R55, R63 and R73 overwrite entries in place.
type Memory struct {
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	ScaleUpEvents   []ScaleEvent     `json:"scale_up_events,omitempty"`
	ScaleDownEvents []ScaleEvent     `json:"scale_down_events,omitempty"`
	// Missing has an entry for each metric with an OnMissing, in the order of the spec. It is
	// replaced, never changed.
	Missing []MissingMetric `json:"missing,omitempty"`
}

// Recommendation is a count before stabilization and limits.
type Recommendation struct {
	Replicas int32     `json:"replicas"`
	Time     time.Time `json:"time"`
}

// ScaleEvent is a completed change of the count.
type ScaleEvent struct {
	// Change is the absolute difference.
	Change int32     `json:"change"`
	Time   time.Time `json:"time"`
	// Outdated marks an entry that may be overwritten (R73). It still counts while its time is
	// inside a period (R65).
	Outdated bool `json:"outdated,omitempty"`
}
