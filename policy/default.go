package policy

// The defaults of R9 to R11.
const (
	defaultMinReplicas          int32 = 1
	defaultCPUUtilization       int32 = 80
	defaultScaleUpWindowSeconds int32 = 0
	defaultPolicyPeriodSeconds  int32 = 15
	defaultScaleUpInstances     int32 = 4
	defaultScaleUpPercent       int32 = 100
	defaultScaleDownPercent     int32 = 100
	defaultSelectPolicy               = MaxChange
	defaultMetricName                 = "cpu"
	defaultMetricType                 = ResourceMetric
	defaultMetricTargetType           = UtilizationTarget
)

// Default returns the spec with everything filled in that a user may leave out
// (R9 to R12): the lower bound, the metric, and, where a behavior is present,
// its scaling rules field by field. It never modifies its argument; the result
// shares with it what was not filled in.
func Default(spec Spec) Spec {
	if spec.MinReplicas == nil { // R9
		spec.MinReplicas = new(defaultMinReplicas)
	}
	if len(spec.Metrics) == 0 { // R10
		spec.Metrics = []MetricSpec{{
			Type: defaultMetricType,
			Name: defaultMetricName,
			Target: MetricTarget{
				Type:               defaultMetricTargetType,
				AverageUtilization: new(defaultCPUUtilization),
			},
		}}
	}
	if spec.Behavior != nil { // R11
		spec.Behavior = &Behavior{
			ScaleUp:   defaultScaleUp(spec.Behavior.ScaleUp),
			ScaleDown: defaultScaleDown(spec.Behavior.ScaleDown),
		}
	}
	return spec
}

// defaultScaleUp completes the scale-up rules (R11, R12).
func defaultScaleUp(given *ScalingRules) *ScalingRules {
	rules := completeRules(given)
	if rules.StabilizationWindowSeconds == nil {
		rules.StabilizationWindowSeconds = new(defaultScaleUpWindowSeconds)
	}
	if rules.Policies == nil {
		rules.Policies = []ScalingPolicy{
			{Type: InstancesPolicy, Value: defaultScaleUpInstances, PeriodSeconds: defaultPolicyPeriodSeconds},
			{Type: PercentPolicy, Value: defaultScaleUpPercent, PeriodSeconds: defaultPolicyPeriodSeconds},
		}
	}
	return rules
}

// defaultScaleDown completes the scale-down rules (R11, R12). Their window
// stays absent: R61 reads the daemon's at each pass.
func defaultScaleDown(given *ScalingRules) *ScalingRules {
	rules := completeRules(given)
	if rules.Policies == nil {
		rules.Policies = []ScalingPolicy{
			{Type: PercentPolicy, Value: defaultScaleDownPercent, PeriodSeconds: defaultPolicyPeriodSeconds},
		}
	}
	return rules
}

// completeRules copies the rules of one direction and fills in what both
// directions have in common.
func completeRules(given *ScalingRules) *ScalingRules {
	rules := &ScalingRules{}
	if given != nil {
		*rules = *given
	}
	if rules.SelectPolicy == "" {
		rules.SelectPolicy = defaultSelectPolicy
	}
	return rules
}
