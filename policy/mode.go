package policy

// Mode is how much an autoscaler does by itself. The zero Mode is ModeOn.
type Mode string

// The modes.
const (
	ModeOn Mode = ""
	// ModeRecommend decides and remembers what the metrics ask for, and never acts.
	ModeRecommend Mode = "recommend"
	// ModeUpOnly and ModeDownOnly are a DisabledChange in the other direction, with
	// behavior or without. Bounds hold, as they do then.
	ModeUpOnly   Mode = "up-only"
	ModeDownOnly Mode = "down-only"
	// ModeOff reads the target and nothing else.
	ModeOff Mode = "off"
)

// String returns the mode's word.
func (m Mode) String() string {
	if m == ModeOn {
		return "on"
	}
	return string(m)
}

// The reasons of ScalingLimited and ScalingActive that a mode gives.
const (
	modeRecommendReason = "ModeRecommend"
	modeUpOnlyReason    = "ModeUpOnly"
	modeDownOnlyReason  = "ModeDownOnly"
	modeOffReason       = "ModeOff"
)

// switchedOff ends a pass of an autoscaler that is off. Nothing is remembered: what the
// metrics ask for is not known.
func (p *pass) switchedOff() {
	d := &p.decision
	d.Case = CaseOff
	p.forgetMissing()
	d.Message = `no change: the autoscaler's mode is "off"`
	p.set(ScalingActive, ConditionFalse, modeOffReason, `the autoscaler's mode is "off": metrics are not read`)
}

// forbids reports whether the mode lets no change of the count in that direction follow
// from metrics.
func (m Mode) forbids(from, to int32) bool {
	return m == ModeUpOnly && to < from || m == ModeDownOnly && to > from
}

// limitByMode is what R69 makes of a direction whose select policy is Disabled.
func (p *pass) limitByMode(step *Limit) {
	current := p.decision.CurrentReplicas
	step.Replicas, step.Reason = current, modeUpOnlyReason
	if p.settings.Mode == ModeDownOnly {
		step.Reason = modeDownOnlyReason
	}
	step.Rate, step.Allowed = &current, current
	step.Limited = true
	p.decision.HeldBy = HeldByMode
}
