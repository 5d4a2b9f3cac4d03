package probe

import (
	"cmp"
	"time"
)

// Patience is how long and how often an instance may fail a probe: the part of its
// configuration that all kinds of fleets share, which embed it.
type Patience struct {
	// Timeout is how long one probe may take; 0 means 1s.
	Timeout time.Duration `toml:"timeout"`
	// FailureThreshold is how many probes in a row have to fail until a ready
	// instance is unready; 0 means 3.
	FailureThreshold int `toml:"failure_threshold"`
}

// The defaults of a Patience.
const (
	defaultTimeout          = time.Second
	defaultFailureThreshold = 3
)

// SetDefaults fills in what was left out.
func (p *Patience) SetDefaults() {
	p.Timeout = cmp.Or(p.Timeout, defaultTimeout)
	p.FailureThreshold = cmp.Or(p.FailureThreshold, defaultFailureThreshold)
}

// Verdict is the result of all probes of one instance. The zero Verdict, before the
// first one, is that it is not ready.
type Verdict struct {
	Ready bool
	// failures are those since a probe succeeded.
	failures int
}

// Weigh adds one more probe to a verdict, whose error is nil where the instance is
// ready, and reports whether that changes it.
func (p Patience) Weigh(v *Verdict, err error) (changed bool) {
	before := v.Ready
	if err == nil {
		v.Ready, v.failures = true, 0
		return !before
	}
	v.failures++
	v.Ready = before && v.failures < p.FailureThreshold
	return v.Ready != before
}
