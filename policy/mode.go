package policy

// Mode limits what an autoscaler does. The zero Mode is ModeOn.
type Mode string

// The modes.
const (
	ModeOn Mode = ""
	// ModeRecommend decides and stores recommendations, but never writes.
	ModeRecommend Mode = "recommend"
	// ModeUpOnly and ModeDownOnly disable the other direction, with or without behavior. Bounds
	// still apply.
	ModeUpOnly   Mode = "up-only"
	ModeDownOnly Mode = "down-only"
	// ModeOff only reads the target.
	ModeOff Mode = "off"
)

func (m Mode) String() string {
	if m == ModeOn {
		return "on"
	}
	return string(m)
}

// Reasons of ScalingLimited and ScalingActive.
const (
	modeRecommendReason = "ModeRecommend"
	modeUpOnlyReason    = "ModeUpOnly"
	modeDownOnlyReason  = "ModeDownOnly"
	modeOffReason       = "ModeOff"
)

// switchedOff ends a pass in ModeOff. Metrics are not read, so nothing is stored.
func (p *pass) switchedOff() {
	d := &p.decision
	d.Case = CaseOff
	p.forgetMissing()
	d.Message = `no change: the autoscaler's mode is "off"`
	p.set(ScalingActive, ConditionFalse, modeOffReason, `the autoscaler's mode is "off": metrics are not read`)
}

// forbids reports whether the mode disables a change by metrics.
func (m Mode) forbids(from, to int32) bool {
	return m == ModeUpOnly && to < from || m == ModeDownOnly && to > from
}

// limitByMode is R69 for a disabled direction.
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
