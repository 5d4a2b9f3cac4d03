package policy

import "time"

// Event reasons (R78).
const (
	failedGetScaleReason = "FailedGetScale"
	failedComputeReason  = "FailedComputeMetricsReplicas"
	failedRescaleReason  = "FailedRescale"
	rescaledReason       = "SuccessfulRescale"
	failedStatusReason   = "FailedUpdateStatus"
)

// failedUpdateReason is the reason in the condition AbleToScale after a failed write (R71).
const failedUpdateReason = "FailedUpdateScale"

// pass is the state of one reconciliation (R25). Its inputs are values rather than pointers, so
// that they stay on the stack.
type pass struct {
	settings    Settings
	spec        Spec
	status      Status
	observation Observation
	now         time.Time
	band        tolerance
	decision    Decision
}

// Decide performs one pass up to its write (R25.1 to R25.6). The spec must be defaulted and valid.
// The arguments are not modified; the result may share memory with them, so neither may be modified
// afterwards.
func Decide(settings Settings, spec Spec, memory Memory, status Status, observation Observation, now time.Time) Decision {
	p := pass{settings: settings, spec: spec, status: status, observation: observation, now: now}
	p.begin(memory)
	if observation.ReadError != "" { // R25.1
		p.unreadable()
		return p.decision
	}
	p.read()
	current := observation.SpecReplicas
	switch { // R25.4
	case observation.Command != nil:
		p.applyCommand()
	case settings.Mode == ModeOff:
		p.switchedOff()
	case current == 0 && p.stopped():
		p.leaveZero(CaseBelowMin, BelowMin, p.decision.MinReplicas)
	case current == 0 && p.startsFirst():
		p.leaveZero(CaseNeverStarted, InitialReplicas, min(max(*spec.InitialReplicas, p.decision.MinReplicas), spec.MaxReplicas))
	case current == 0 && !p.computesAtZero():
		p.disable()
	case p.decision.Restore != nil:
		p.restore()
	case current > spec.MaxReplicas && current != 0:
		p.forgetMissing()
		p.force(CaseAboveMax, AboveMax, spec.MaxReplicas)
	case current < p.decision.MinReplicas && (current != 0 || observation.Finite):
		p.forgetMissing()
		p.force(CaseBelowMin, BelowMin, p.decision.MinReplicas)
	default:
		p.followMetrics()
	}
	if p.decision.Stabilization == nil {
		p.countRead()
	}
	return p.decision
}

func (p *pass) begin(memory Memory) {
	d := &p.decision
	d.Time = p.now
	d.MinReplicas, d.MaxReplicas = minReplicasOf(&p.spec), p.spec.MaxReplicas
	d.Draft = &Draft{Memory: memory, Status: p.status, previous: p.status, rules: eventRulesFor(&p.settings, &p.spec)}
	d.Restore, d.Mode = p.observation.Restore, p.settings.Mode
	p.band = toleranceOf(&p.settings, &p.spec)
	p.noticePauses()
}

// unreadable ends a pass that could not read its target (R25.1).
func (p *pass) unreadable() {
	d := &p.decision
	d.Case = CaseUnreadable
	d.Error = p.observation.ReadError
	d.Message = "no change: the target could not be read: " + d.Error
	reason := p.observation.ReadReason
	if reason == "" {
		p.warn(failedGetScaleReason, d.Error)
		p.set(AbleToScale, ConditionFalse, failedGetScaleReason, "the target could not be read: "+d.Error)
		return
	}
	// A reason set by the platform does not change between passes, so one event is sufficient.
	if able := findCondition(p.status.Conditions, AbleToScale); able == nil || able.Status != ConditionFalse || able.Reason != reason {
		p.warn(reason, d.Error)
	}
	p.set(AbleToScale, ConditionFalse, reason, d.Error)
	if p.observation.Unscalable {
		p.set(ScalingActive, ConditionFalse, reason, d.Error)
	}
}

// read copies the observation of the target (R25.2, R25.3).
func (p *pass) read() {
	d, o := &p.decision, &p.observation
	d.CurrentReplicas, d.StatusReplicas = o.SpecReplicas, o.StatusReplicas
	d.DesiredReplicas = d.CurrentReplicas
	d.PlatformMin, d.PlatformMax, d.NeverStarted, d.Finite = o.PlatformMin, o.PlatformMax, o.NeverStarted, o.Finite
	if o.Hold != nil {
		hold := *o.Hold
		d.Hold = &hold
		if !held(p.status.Conditions, &hold) {
			d.Events = append(d.Events, hold.event())
		}
		p.set(AbleToScale, ConditionFalse, holdReason(&hold), hold.Message)
	}
	// Stabilization later sets a more specific reason. This call determines the condition's time
	// and its position in the list (R77).
	if able := findCondition(d.Status.Conditions, AbleToScale); able == nil || able.Status != ConditionTrue {
		p.countRead()
	}
	p.noticeForeign()
	p.noticeRestored()
	p.noticePlatform()
	p.followOutage()
	d.Memory.Recommendations = initialRecommendations(d.Memory.Recommendations, d.CurrentReplicas, p.now)
	d.Status.CurrentReplicas, d.Status.DesiredReplicas = d.CurrentReplicas, d.CurrentReplicas
	d.Status.Metrics = nil
}

// force sets the desired count to min or max (R25.4b, c).
func (p *pass) force(which Case, reason RescaleReason, bound int32) {
	p.decision.Case, p.decision.Reason = which, reason
	p.conclude(bound)
}

// followMetrics evaluates the metrics (R25.5, R25.6).
func (p *pass) followMetrics() {
	d := &p.decision
	d.Case = CaseMetrics
	p.evaluateMetrics()
	if !p.combineMetrics() {
		return
	}
	entry := p.recommend()
	recommended := entry.Replicas
	switch { // later steps do not change the reason (R25.5)
	case recommended != d.CurrentReplicas && d.Metrics[*d.Winner].FallsBack():
		d.Reason = MetricMissing
	case recommended > d.CurrentReplicas:
		d.Reason = MetricAboveTarget
	case recommended < d.CurrentReplicas:
		d.Reason = AllBelowTarget
	}
	desired := p.normalize(entry)
	p.reportOutage()
	p.conclude(p.raiseFromZero(desired))
}

// conclude sets the desired count, limited by the platform's bounds, and whether to write it.
func (p *pass) conclude(desired int32) {
	d := &p.decision
	d.DesiredReplicas = p.clampToPlatform(desired)
	held := p.restrain()
	d.Write = d.DesiredReplicas != d.CurrentReplicas && d.Hold == nil && held == ""
	switch {
	case d.DesiredReplicas == d.CurrentReplicas:
		d.Reason, d.Message = NoReason, p.whyNoChange()
	case held != "":
		d.Message = "no change: " + itoa(d.DesiredReplicas) + " replicas are wanted, but " + held
	case d.Hold != nil:
		d.Message = "no change: " + itoa(d.DesiredReplicas) + " replicas are wanted, but the target is held: " + d.Hold.Message
	default:
		d.Message = newSize(d.DesiredReplicas, p.whyChange())
	}
}

// restrain returns a description of the pause or mode that prevents a change, or an empty string.
func (p *pass) restrain() string {
	d := &p.decision
	if d.DesiredReplicas == d.CurrentReplicas {
		return ""
	}
	d.HeldBy = "" // a bound or R53 takes precedence over the mode
	if pause := p.pauseOf(d.CurrentReplicas, d.DesiredReplicas); pause != nil {
		d.HeldBy = pause.HeldBy()
		return pause.Message
	}
	if d.Mode == ModeRecommend {
		d.HeldBy = HeldByMode
		p.set(ScalingLimited, ConditionTrue, modeRecommendReason, `the autoscaler's mode is "recommend": the count is not changed`)
		return `the autoscaler's mode is "recommend"`
	}
	return ""
}

func newSize(replicas int32, why string) string {
	return "New size: " + itoa(replicas) + "; reason: " + why
}

// whyChange describes the reason for a change (R79).
func (p *pass) whyChange() string {
	d := &p.decision
	switch d.Reason {
	case MetricAboveTarget:
		why := describeMetric(&p.spec.Metrics[*d.Winner]) + " above target"
		if partial := d.Metrics[*d.Winner].Partial; partial != "" {
			why += ", although its result is partial: " + partial
		}
		return why
	case AllBelowTarget:
		return "all metrics below target"
	case MetricMissing:
		return describeOnMissing(&p.spec.Metrics[*d.Winner])
	case AboveMax:
		if p.spec.MaxReplicas == 0 {
			return "a schedule stops the target"
		}
		return "current number of replicas above max_replicas"
	case BelowMin:
		return "current number of replicas below min_replicas"
	case InitialReplicas:
		return "the target has never been started"
	case ForeignChanged:
		return "a manual change of the count is reverted"
	default:
		return "an earlier recommendation in the stabilization window is higher"
	}
}

// whyNoChange describes the reason for not changing the count.
func (p *pass) whyNoChange() string {
	d := &p.decision
	switch {
	case d.HeldBy == HeldByMode:
		return "no change: the autoscaler's mode is \"" + d.Mode.String() + "\", and the metrics recommend the other direction"
	case d.PlatformBound != nil:
		return "no change: the platform's own bounds allow no change"
	case d.Limit != nil && d.Limit.Limited:
		return "no change: the scaling limits allow no change"
	case d.Outage != nil:
		return "no change: " + p.describeOutage() + "; the metrics recommend " + itoa(d.Outage.Proposed)
	case d.Recommendation != nil && *d.Recommendation != d.CurrentReplicas:
		return "no change: earlier recommendations in the stabilization window hold the count"
	}
	if d.Winner != nil && d.Metrics[*d.Winner].FallsBack() {
		return "no change: " + describeOnMissing(&p.spec.Metrics[*d.Winner]) + ", proposes the current count"
	}
	if d.Winner != nil && d.Metrics[*d.Winner].ActivationMilli != nil {
		return "no change: " + describeMetric(&p.spec.Metrics[*d.Winner]) + " is not above its activation of " + milliText(*d.Metrics[*d.Winner].ActivationMilli)
	}
	return "no change: the metrics recommend the current count"
}

func (p *pass) set(kind ConditionType, status ConditionStatus, reason, message string) {
	p.decision.Status.Conditions = setCondition(p.decision.Status.Conditions, p.now, kind, status, reason, message)
}

func (p *pass) countRead() {
	p.ableToScale("SucceededGetScale", "the target's current count could be read")
}

// ableToScale sets AbleToScale to True, unless the platform currently does not accept writes.
func (p *pass) ableToScale(reason, message string) {
	if p.decision.Hold == nil {
		p.set(AbleToScale, ConditionTrue, reason, message)
	}
}

func (p *pass) warn(reason, message string) {
	p.decision.Events = append(p.decision.Events, Event{Kind: WarningEvent, Reason: reason, Message: message})
}
