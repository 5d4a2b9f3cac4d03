package policy

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings/formula"
)

// milliPerUnit converts between the values of a formula and milli-units.
const milliPerUnit = 1000

// checkFormula parses the formula of a spec. Each name in it must belong to exactly one metric.
func checkFormula(text string, inputs []MetricSpec) (*formula.Formula, error) {
	parsed, err := formula.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, name := range parsed.Names() {
		found := 0
		for i := range inputs {
			if inputs[i].Name == name {
				found++
			}
		}
		switch found {
		case 0:
			if name == text {
				return nil, errors.New(`must be "max" or a formula of the metrics` + nameHint(name, inputs))
			}
			return nil, errors.New("there is no metric " + strconv.Quote(name) + nameHint(name, inputs))
		case 1:
		default:
			return nil, errors.New("there are several metrics " + strconv.Quote(name) + ": give them different names")
		}
	}
	return parsed, nil
}

// nameHint explains an unknown name that is the start of a metric's name, such as "queue" in
// "queue-length". Otherwise it lists the metrics.
func nameHint(name string, inputs []MetricSpec) string {
	names := make([]string, len(inputs))
	for i := range inputs {
		if names[i] = inputs[i].Name; strings.HasPrefix(inputs[i].Name, name) && strings.Trim(strings.ToLower(inputs[i].Name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return "; names in a formula consist of letters, digits and underscores"
		}
	}
	return "; the metrics are " + strings.Join(names, ", ")
}

// Compile returns the metrics with compiled formulas. The argument is not modified.
func Compile(metrics []MetricSpec) []MetricSpec {
	for i := range metrics {
		if metrics[i].Formula == "" {
			continue
		}
		if compiled, err := formula.Parse(metrics[i].Formula); err == nil { // otherwise a pass reports the error
			metrics = slices.Clone(metrics)
			metrics[i].Compiled = compiled
		}
	}
	return metrics
}

// evaluateFormula computes a formula over the results of the other metrics. It returns the metric's
// error.
func (p *pass) evaluateFormula(metric *MetricSpec, results []MetricResult, result *MetricResult) string {
	inputs, _ := inputsOf(&p.spec)
	parsed := metric.Compiled
	if parsed == nil {
		var err error
		if parsed, err = formula.Parse(metric.Formula); err != nil {
			return "the formula is invalid: " + err.Error()
		}
	}
	values := map[string]float64{}
	for i := range inputs {
		input := &results[i]
		if input.Error != "" {
			return "input " + input.Name + " is missing: " + input.Error
		}
		if input.Partial != "" {
			result.Partial = input.Partial
		}
		values[input.Name] = float64(input.InputMilli()) / milliPerUnit
	}
	value, err := parsed.Evaluate(values)
	if err != nil {
		return err.Error()
	}
	if value < 0 { // R43 would read it as the largest number
		return "the result is negative, which is not valid: use max(0, …)"
	}
	milli := ceilToInt64(math.Trunc(value * milliPerUnit)) // like the values of sources: 7.000000000000001 is 7000
	return p.evaluateWhole(metric, &Reading{ValuesMilli: []int64{milli}}, result)
}

// InputMilli returns the value of a metric in a formula, in milli-units: the total of an External
// or Object metric, the utilization in percent, or the average per instance.
func (r *MetricResult) InputMilli() int64 {
	switch current := &r.Current; {
	case r.TargetType == UtilizationTarget && current.AverageUtilization != nil:
		return int64(*current.AverageUtilization) * milliPerUnit
	case r.TargetType == ValueTarget && current.ValueMilli != nil:
		return *current.ValueMilli
	case r.Groups != nil && current.AverageValueMilli != nil:
		return *current.AverageValueMilli
	}
	return r.Total
}

// counts reports whether the proposal of a metric counts. With a formula, only the formula counts,
// and the fallbacks of its inputs. The formula itself does not count if all its missing inputs fall
// back.
func (p *pass) counts(i int) bool {
	inputs, combined := inputsOf(&p.spec)
	if !combined {
		return true
	}
	results := p.decision.Metrics
	if i < len(inputs) {
		return results[i].FallsBack()
	}
	if results[i].Error == "" {
		return true
	}
	missing, covered := 0, 0
	for j := range inputs {
		if results[j].Error == "" {
			continue
		}
		if missing++; results[j].FallsBack() {
			covered++
		}
	}
	return missing == 0 || covered < missing
}
