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

// Default returns the spec with defaults for missing fields (R9 to R12). The argument is not
// modified.
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

// The default policies are shared by all specs and are never modified.
var (
	defaultScaleUpPolicies = []ScalingPolicy{
		{Type: InstancesPolicy, Value: defaultScaleUpInstances, PeriodSeconds: defaultPolicyPeriodSeconds},
		{Type: PercentPolicy, Value: defaultScaleUpPercent, PeriodSeconds: defaultPolicyPeriodSeconds},
	}
	defaultScaleDownPolicies = []ScalingPolicy{{Type: PercentPolicy, Value: defaultScaleDownPercent, PeriodSeconds: defaultPolicyPeriodSeconds}}
)

func defaultScaleUp(given *ScalingRules) *ScalingRules {
	rules := completeRules(given)
	if rules.StabilizationWindowSeconds == nil {
		rules.StabilizationWindowSeconds = new(defaultScaleUpWindowSeconds)
	}
	if rules.Policies == nil {
		rules.Policies = defaultScaleUpPolicies
	}
	return rules
}

// The scale-down window has no default here: R61 reads the daemon's setting at each pass.
func defaultScaleDown(given *ScalingRules) *ScalingRules {
	rules := completeRules(given)
	if rules.Policies == nil {
		rules.Policies = defaultScaleDownPolicies
	}
	return rules
}

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
