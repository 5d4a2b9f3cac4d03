package probe

import (
	"cmp"
	"time"
)

// Patience is how long and how often an instance may fail to answer: what the
// configuration of a probe says alike in all kinds of fleets, which embed it.
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

// SetDefaults fills in what was left out. It changes nothing that was given, and
// nothing when called again.
func (p *Patience) SetDefaults() {
	p.Timeout = cmp.Or(p.Timeout, defaultTimeout)
	p.FailureThreshold = cmp.Or(p.FailureThreshold, defaultFailureThreshold)
}

// Verdict is what all probes of one instance say together. The zero Verdict, before
// the first one, is that it is not ready.
type Verdict struct {
	Ready bool
	// failures are those since a probe succeeded.
	failures int
}

// Weigh adds one more probe to a verdict, whose error is nil where the instance is
// ready, and says whether that changes it.
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
