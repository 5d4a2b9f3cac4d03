package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

// Setting is a value of an autoscaler's configuration, such as "behavior.scale_up.tolerance" and 0.05.
// The value is written in TOML.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (s Setting) String() string { return s.Key + "=" + s.Value }

// knob is a setting that a search changes.
type knob struct {
	// group is the same for knobs that exclude each other.
	group string
	Setting
	apply func(*policy.Spec)
}

// knobs returns the settings to search: target values, the minimum, windows, policies and tolerances.
func knobs(p *Policy) (all []knob) {
	for i := range p.Spec.Metrics {
		all = append(all, targetKnobs(&p.Spec, i)...)
	}
	all = append(all, minimumKnobs(&p.Spec)...)
	all = append(all, directionKnobs("scale_down", p, []time.Duration{0, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute})...)
	return append(all, directionKnobs("scale_up", p, []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute})...)
}

// factors are the factors of target values and minimums.
var factors = []float64{0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 2}

// highestUtilization is the highest target that a search considers, in percent.
const highestUtilization = 90

// targetKnobs returns other target values of a metric. It returns nil for an input of a formula.
func targetKnobs(spec *policy.Spec, i int) (all []knob) {
	last := len(spec.Metrics) - 1
	if spec.Metrics[last].Formula != "" && i != last {
		return nil
	}
	milli, utilization := targetOf(&spec.Metrics[i])
	key := fmt.Sprintf("metrics[%d].", i)
	if spec.Metrics[i].Formula != "" {
		return nil // its table has another name
	}
	for _, factor := range factors {
		next := int64(math.Round(float64(milli) * factor))
		if digits := math.Pow10(max(0, len(strconv.FormatInt(next, 10))-2)); digits > 1 {
			next = int64(math.Round(float64(next)/digits) * digits) // two digits are sufficient
		}
		k := knob{group: key}
		switch target := spec.Metrics[i].Target; {
		case utilization:
			percent := int32(next / 1000)
			if percent < 1 || percent > highestUtilization || next == milli {
				continue
			}
			k.Setting = Setting{key + "average_utilization", strconv.Itoa(int(percent))}
			target.AverageUtilization = &percent
			k.apply = setTarget(i, target)
		case next < 1 || next == milli:
			continue
		case target.AverageValueMilli != nil:
			k.Setting = Setting{key + "average_value", strconv.Quote(quantity.FormatDecimal(next))}
			target.AverageValueMilli = &next
			k.apply = setTarget(i, target)
		default:
			k.Setting = Setting{key + "value", strconv.Quote(quantity.FormatDecimal(next))}
			target.ValueMilli = &next
			k.apply = setTarget(i, target)
		}
		all = append(all, k)
	}
	return all
}

func setTarget(i int, target policy.MetricTarget) func(*policy.Spec) {
	return func(s *policy.Spec) {
		s.Metrics = slices.Clone(s.Metrics)
		s.Metrics[i].Target = target
	}
}

func minimumKnobs(spec *policy.Spec) (all []knob) {
	was := *spec.MinReplicas
	for _, factor := range append([]float64{0.25, 0.34, 3}, factors...) {
		next := int32(math.Round(float64(was) * factor))
		known := slices.ContainsFunc(all, func(k knob) bool { return k.Value == strconv.Itoa(int(next)) })
		if next < 1 || next == was || next > spec.MaxReplicas || known {
			continue
		}
		all = append(all, knob{"min_replicas", Setting{"min_replicas", strconv.Itoa(int(next))}, func(s *policy.Spec) { s.MinReplicas = &next }})
	}
	return all
}

// directionKnobs returns other rules of one direction.
func directionKnobs(name string, p *Policy, windows []time.Duration) (all []knob) {
	key := "behavior." + name + "."
	add := func(group, value string, change func(*policy.ScalingRules)) {
		all = append(all, knob{key + group, Setting{key + group, value}, func(s *policy.Spec) { s.Behavior = withRules(s, name, change) }})
	}
	rules := policy.RulesFor(p.Settings, p.Spec)
	window := rules.Up
	if name == "scale_down" {
		window = rules.Down
	}
	for _, next := range windows {
		if next != window {
			seconds := int32(next / time.Second)
			add("stabilization_window", strconv.Quote(shortDuration(next)), func(r *policy.ScalingRules) { r.StabilizationWindowSeconds = &seconds })
		}
	}
	for _, tolerance := range []float64{0.02, 0.05, 0.1, 0.15, 0.2} {
		add("tolerance", strconv.FormatFloat(tolerance, 'g', -1, 64), func(r *policy.ScalingRules) { r.Tolerance = &tolerance })
	}
	for _, percent := range []int32{10, 20, 50, 100, 200} {
		if percent > 100 && name == "scale_down" {
			continue
		}
		add("policies", fmt.Sprintf(`[{ type = "Percent", value = %d, period = "1m" }, { type = "Instances", value = 2, period = "1m" }]`, percent), func(r *policy.ScalingRules) {
			r.Policies = []policy.ScalingPolicy{
				{Type: policy.PercentPolicy, Value: percent, PeriodSeconds: 60}, {Type: policy.InstancesPolicy, Value: 2, PeriodSeconds: 60},
			}
		})
	}
	return all
}

// shortDuration returns a duration of whole minutes, or of less than a minute, with one unit.
func shortDuration(d time.Duration) string {
	if d >= time.Minute {
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return d.String()
}

// withRules returns a behavior with a change in one direction.
func withRules(s *policy.Spec, name string, change func(*policy.ScalingRules)) *policy.Behavior {
	var next policy.Behavior
	if s.Behavior != nil {
		next = *s.Behavior
	}
	to := &next.ScaleDown
	if name == "scale_up" {
		to = &next.ScaleUp
	}
	var rules policy.ScalingRules
	if *to != nil {
		rules = **to
	}
	change(&rules)
	*to = &rules
	return &next
}

// candidate is a policy with some settings changed.
type candidate struct {
	settings []Setting
	policy   Policy
}

const (
	// mostSettings is the largest number of changed settings of a candidate.
	mostSettings = 3
	// draws limits the search for candidates that are not known yet.
	draws = 50
)

// candidates returns up to n policies: first each single change, then random combinations, which are
// always the same. It omits policies whose longest window is too long for a search in a recording of
// the given span.
func candidates(p *Policy, n int, span time.Duration) (all []candidate) {
	settings := knobs(p)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(settings), func(i, j int) { settings[i], settings[j] = settings[j], settings[i] })
	known := map[string]bool{}
	add := func(chosen []knob) {
		c := candidate{policy: *p}
		slices.SortFunc(chosen, func(a, b knob) int { return strings.Compare(a.Key, b.Key) })
		for _, k := range chosen {
			c.settings = append(c.settings, k.Setting)
			k.apply(&c.policy.Spec)
		}
		c.policy.Label = label(c.settings)
		if known[c.policy.Label] {
			return
		}
		known[c.policy.Label] = true
		if c.policy.Spec = policy.Default(c.policy.Spec); len(policy.Validate(c.policy.Spec, p.Settings.ScaleToZero)) == 0 && span > halves*c.policy.memory() {
			all = append(all, c)
		}
	}
	for i := 0; i < len(settings) && len(all) < n/2; i++ {
		add(settings[i : i+1])
	}
	for range draws * n {
		if len(all) >= n || len(settings) < 2 {
			break
		}
		var chosen []knob
		for range 2 + random.IntN(mostSettings-1) {
			next := settings[random.IntN(len(settings))]
			if !slices.ContainsFunc(chosen, func(k knob) bool { return k.group == next.group }) {
				chosen = append(chosen, next)
			}
		}
		add(chosen)
	}
	return all
}
