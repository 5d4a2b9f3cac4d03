package policy

// Mode limits the actions of an autoscaler. The zero value means no limit.
type Mode string

// The modes.
const (
	ModeOn Mode = ""
	// With ModeRecommend, the autoscaler decides and stores recommendations, but never writes.
	ModeRecommend Mode = "recommend"
	// ModeUpOnly and ModeDownOnly disable the opposite direction, with or without behavior. Bounds
	// still apply.
	ModeUpOnly   Mode = "up-only"
	ModeDownOnly Mode = "down-only"
	// With ModeOff, the autoscaler only reads the target.
	ModeOff Mode = "off"
)

func (m Mode) String() string {
	if m == ModeOn {
		return "on"
	}
	return string(m)
}

// The reasons in the conditions ScalingLimited and ScalingActive.
const (
	modeRecommendReason = "ModeRecommend"
	modeUpOnlyReason    = "ModeUpOnly"
	modeDownOnlyReason  = "ModeDownOnly"
	modeOffReason       = "ModeOff"
)

// switchedOff ends a pass in ModeOff. Metrics are not read, so no recommendation is stored.
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

// limitByMode applies R69 to a direction that the mode disables.
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
