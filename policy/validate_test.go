package policy_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/hpad/hpad/settings"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// validationVector is one line of a validation vectors file: a spec as written by a user, and
// upstream's result after defaulting.
type validationVector struct {
	Spec        vectorSpec `json:"spec"`
	ScaleToZero bool       `json:"scale_to_zero"`
	Valid       bool       `json:"valid"`
	Errors      []string   `json:"errors"`
}

func upstreamFields(mistakes []settings.FieldError) []string {
	names := map[string]string{"max_replicas": "max", "min_replicas": "min"}
	var fields []string
	for _, mistake := range mistakes {
		field := mistake.Field
		if name, ok := names[field]; ok {
			field = name
		}
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// TestValidationVectors compares hpad's validation with upstream's. The glob in
// HPAD_VALIDATION_VECTORS selects other files in the same format.
func TestValidationVectors(t *testing.T) {
	for _, file := range vectorFiles(t, "HPAD_VALIDATION_VECTORS", "testdata/hpa-validation-*.jsonl.gz") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			readLines(t, file, func(line []byte) {
				vector := decodeStrictly[validationVector](t, line)
				mistakes := policy.Validate(policy.Default(vector.Spec.policySpec()), vector.ScaleToZero)
				if diff := gocmp.Diff(vector.Errors, upstreamFields(mistakes)); diff != "" || vector.Valid != (len(mistakes) == 0) {
					t.Errorf("%s\nupstream: valid = %v, hpad: %v (-upstream +hpad):\n%s", line, vector.Valid, mistakes, diff)
				}
			})
		})
	}
}

func TestDefaultKeepsGivenValues(t *testing.T) { // R9 to R12
	given := policy.Spec{MaxReplicas: 5, Behavior: &policy.Behavior{
		ScaleUp: &policy.ScalingRules{Policies: []policy.ScalingPolicy{}, SelectPolicy: policy.MinChange},
	}}
	before := given.Behavior.ScaleUp.SelectPolicy
	got := policy.Default(given)
	want := policy.Spec{
		MinReplicas: new(int32(1)), MaxReplicas: 5,
		Metrics: []policy.MetricSpec{{
			Type: policy.ResourceMetric, Name: "cpu",
			Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(80))},
		}},
		Behavior: &policy.Behavior{
			ScaleUp: &policy.ScalingRules{
				StabilizationWindowSeconds: new(int32(0)), SelectPolicy: policy.MinChange, Policies: []policy.ScalingPolicy{},
			},
			ScaleDown: &policy.ScalingRules{
				SelectPolicy: policy.MaxChange,
				Policies:     []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 100, PeriodSeconds: 15}},
			},
		},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("Default() (-want +got):\n%s", diff)
	}
	if given.MinReplicas != nil || given.Metrics != nil || given.Behavior.ScaleDown != nil || given.Behavior.ScaleUp.SelectPolicy != before {
		t.Errorf("Default modified its argument: %+v", given)
	}
	if diff := gocmp.Diff(got, policy.Default(got)); diff != "" {
		t.Errorf("Default changed a defaulted spec (-once +twice):\n%s", diff)
	}
}
