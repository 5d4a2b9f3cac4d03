package probe

import (
	"time"

	"github.com/hpad/hpad/targets"
)

// Limits are the probe settings that all kinds of fleets share.
type Limits struct {
	// Timeout is the time limit for one probe; 0 means 1s.
	Timeout time.Duration `toml:"timeout" default:"1s" above:"0s" must:"more than 0, such as \"1s\""`
	// FailureThreshold is the number of consecutive failed probes after which a ready
	// instance is unready; 0 means 3.
	FailureThreshold int `toml:"failure_threshold" default:"3" min:"1"`
}

// State is the result of all probes of one instance. The zero State, before the first
// probe, is not ready.
type State struct {
	Ready bool
	// failures is the number of failures since the last success, and failure is the last of them.
	failures int
	failure  error
}

// Reason returns the reason why the instance is not ready; "" if it is ready.
func (v *State) Reason() string {
	switch {
	case v.Ready:
		return ""
	case v.failure == nil:
		return "readiness probe: no result yet"
	}
	return targets.Phrase("readiness probe: " + v.failure.Error())
}

// Add adds the result of a probe, with a nil error for success, and reports whether
// v.Ready has changed.
func (l Limits) Add(v *State, err error) (changed bool) {
	before := v.Ready
	if err == nil {
		v.Ready, v.failures, v.failure = true, 0, nil
		return !before
	}
	v.failures, v.failure = v.failures+1, err
	v.Ready = before && v.failures < l.FailureThreshold
	return v.Ready != before
}
