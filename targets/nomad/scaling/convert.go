package scaling

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
)

// The defaults of nomad-autoscaler.
const (
	defaultCooldown  = 5 * time.Minute
	defaultThreshold = "0.01"
	nomadAPM         = "nomad-apm"
)

// maxPeriod is the largest period of a scaling policy (R19), and maxStabilization the largest window.
const (
	maxPeriod        = 30 * time.Minute
	maxStabilization = time.Hour
)

// converter converts one policy.
type converter struct {
	policy *Policy
	a      Autoscaler
	// tolerances, up and down are the settings of the checks.
	tolerances []string
	up, down   []int64
	// floor is the highest count of a fixed-value check, or -1. other is set if another check exists.
	floor int64
	other bool
	// cooldown and upCooldown are 0 if they are not set.
	cooldown, upCooldown time.Duration
}

// Convert converts the policy. A setting without an exact equivalent has a note.
func (p *Policy) Convert() Autoscaler {
	c := converter{policy: p, floor: -1}
	c.a.SyncPeriod, c.cooldown, c.upCooldown = c.duration("evaluation_interval"), c.duration("cooldown"), c.duration("cooldown_on_scale_up")
	c.a.Down.StabilizationWindow = min(c.cooldown, maxStabilization)
	for check := range blocks(p.Body["check"]) {
		c.check(&check)
	}
	if p.Type != "" && p.Type != horizontal && p.Type != Cluster {
		c.open("", "a policy of type %q sets the resources of a task, and hpad sets only counts", p.Type)
	}
	if len(c.a.Metrics) == 0 && c.floor < 0 {
		c.open("", "the policy has no check that hpad can convert")
	}
	c.bounds()
	c.rules()
	c.ignored(p.Body, "", "check", "target", "evaluation_interval", "cooldown", "cooldown_on_scale_up", "on_check_error")
	return c.a
}

func (c *converter) note(format string, args ...any) {
	c.a.Notes = append(c.a.Notes, Note{Text: fmt.Sprintf(format, args...)})
}

// open adds an open note about a check, or about the policy if the check is "".
func (c *converter) open(check, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if check != "" {
		text = fmt.Sprintf("check %q: %s", check, text)
	}
	c.a.Notes = append(c.a.Notes, Note{Text: text, Open: true})
}

// ignored adds a note for the keys of a block that are not converted.
func (c *converter) ignored(fields map[string]any, of string, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, key) {
			c.note("%s%s has no effect in hpad.", of, key)
		}
	}
}

// duration returns the value of a key of the policy, or 0.
func (c *converter) duration(key string) time.Duration {
	text := textOf(c.policy.Body[key])
	if text == "" {
		return 0
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		c.open("", "%s = %q is not a duration, such as \"5m\"", key, text)
		return 0
	}
	return value
}

// bounds sets the bounds.
func (c *converter) bounds() {
	c.a.Max = clamp(deref(c.policy.Max, 0))
	minimum := deref(c.policy.Min, 0)
	if c.floor >= 0 {
		minimum = max(minimum, min(c.floor, int64(c.a.Max)))
		if !c.other {
			c.a.Max = clamp(minimum)
		}
	}
	c.a.Min = clamp(minimum)
	if c.a.Min == 0 && !slices.ContainsFunc(c.a.Metrics, func(m Metric) bool { return m.Type == external }) {
		c.a.Min = 1
		c.note("min_replicas is 1, because usage cannot be measured at 0 replicas.")
	}
}

func deref(n *int64, fallback int64) int64 {
	if n == nil {
		return fallback
	}
	return *n
}

func clamp(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// rules sets the rules of both directions. A cooldown allows one change per period, so that the limit
// of a check applies to it.
func (c *converter) rules() {
	tolerance := defaultThreshold
	if len(c.tolerances) > 0 {
		tolerance = slices.MinFunc(c.tolerances, byNumber)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(c.tolerances)))) > 1 {
		c.choice("the threshold of the checks differs, and hpad has one tolerance for all metrics. This is the lowest; a higher one ignores smaller changes of every metric.")
	}
	cooldown := cmp.Or(c.cooldown, defaultCooldown)
	for _, d := range []struct {
		rules  *Rules
		limits []int64
		key    string
		period time.Duration
	}{{&c.a.Up, c.up, "max_scale_up", cmp.Or(c.upCooldown, cooldown)}, {&c.a.Down, c.down, "max_scale_down", cooldown}} {
		d.rules.Tolerance, d.rules.Instances, d.rules.Period = tolerance, max(c.a.Max, 1), time.Second
		if len(d.limits) == 0 || slices.Contains(d.limits, noLimit) {
			if slices.ContainsFunc(d.limits, func(limit int64) bool { return limit != noLimit }) {
				c.note("%s has no effect: a limit applies to all metrics in hpad, and another check has none.", d.key)
			}
			continue
		}
		d.rules.Instances, d.rules.Period = max(clamp(slices.Max(d.limits)), 1), min(d.period.Round(time.Second), maxPeriod)
		if slices.Min(d.limits) != slices.Max(d.limits) {
			c.note("%s of the checks differs; the largest applies to all.", d.key)
		}
	}
	const pause = "hpad has no pause after a change. The stabilization window of scale_down delays a reduction, but never an increase."
	switch {
	case c.cooldown > 0:
		c.choice("the cooldown of %s: "+pause+" policies with period = %q would also limit each increase.", settings.Span(cooldown), settings.Span(min(cooldown, maxPeriod)))
	case len(c.a.Metrics) > 0:
		c.note("The default cooldown is 5m: " + pause)
	}
}

func (c *converter) choice(format string, args ...any) {
	c.a.Notes = append(c.a.Notes, Note{Text: fmt.Sprintf(format, args...), Choice: true})
}

func byNumber(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Compare(x, y)
}

// noLimit is the limit of a check without one.
const noLimit = -1

const external = "External"

// check converts one check to a metric, or to a bound.
func (c *converter) check(check *block) {
	c.ignored(check.fields, fmt.Sprintf("Of check %q, ", check.label), "source", "query", "query_window", "query_window_offset", "on_error", "group", "strategy")
	var strategy block
	count := 0
	for strategy = range blocks(check.fields["strategy"]) {
		count++
	}
	if count != 1 {
		c.open(check.label, "it has %d strategies instead of one", count)
		return
	}
	if strategy.label == "fixed-value" {
		value, err := strconv.ParseInt(strategy.text("value"), 10, 32)
		if err != nil || value < 0 {
			c.open(check.label, "the value %q of its strategy is not a count", strategy.text("value"))
		}
		c.floor = max(c.floor, value)
		return
	}
	c.other = true
	var m Metric
	if group := check.text("group"); group != "" {
		c.choice("the group %q of check %q has no equivalent: hpad uses the highest proposal of all metrics. In nomad-autoscaler, the checks of a group are decided first.", group, check.label)
	}
	if offset := check.text("query_window_offset"); offset != "" && offset != "0s" {
		c.open(check.label, "query_window_offset = %q: write \"offset %s\" after each selector of the query, or leave it out to read the current value", offset, offset)
	}
	if !c.source(check, &m) {
		return
	}
	c.strategy(check, &strategy, &m)
	c.a.Metrics = append(c.a.Metrics, m)
}

// apmQuery matches a query of the Nomad APM plugin for a task group.
var apmQuery = regexp.MustCompile(`^(?:taskgroup_)?(avg|min|max|sum)_(cpu|memory)(-allocated)?(?:/(.+?)/(.+)@([^@]*))?$`)

// source sets the origin of a metric, and reports whether hpad can read it.
func (c *converter) source(check *block, m *Metric) bool {
	source, query := cmp.Or(check.text("source"), nomadAPM), strings.TrimSpace(check.text("query"))
	if strings.ReplaceAll(source, "_", "-") != nomadAPM {
		m.Type, m.Name, m.Source, m.Query = external, check.label, source, query
		return true
	}
	found := apmQuery.FindStringSubmatch(query)
	p := c.policy
	switch {
	case found == nil:
		c.open(check.label, "the query %q of %s has no equivalent: use a query of Prometheus, or a resource of the group", query, source)
	case found[4] != "" && (found[4] != p.Group || found[5] != p.Job || p.Namespace != "" && found[6] != p.Namespace):
		c.open(check.label, "the query %q reads another group: use a query of Prometheus, or scale that group", query)
	case found[1] != "avg":
		c.open(check.label, "the query %q has no equivalent: use the average, which is a Resource metric, or a query of Prometheus for the %s", query, map[string]string{"min": "minimum", "max": "maximum", "sum": "sum"}[found[1]])
	default:
		m.Type, m.Resource = "Resource", found[2]
		if found[3] != "" {
			m.AverageUtilization = -1 // the target sets it
		}
		return true
	}
	return false
}

// strategy sets the target of a metric.
func (c *converter) strategy(check, strategy *block, m *Metric) {
	known := []string{"max_scale_up", "max_scale_down"}
	switch strategy.label {
	case "target-value":
		known = append(known, "target", "threshold")
		c.tolerances = append(c.tolerances, cmp.Or(strategy.text("threshold"), defaultThreshold))
		c.target(check, strategy.text("target"), m)
	case "pass-through":
		c.tolerances = append(c.tolerances, "0")
		if m.Type != external {
			c.open(check.label, "pass-through of a usage: hpad has no metric whose value is the count; use target-value")
		}
		m.AverageValue = "1"
		m.Notes = append(m.Notes, "A value that is not a whole number is rounded up; nomad-autoscaler rounds it down.")
	case "threshold":
		c.threshold(check, strategy)
		return
	default:
		c.open(check.label, "hpad does not know the strategy %q: set a target value of the metric", strategy.label)
		return
	}
	for _, limit := range []struct {
		key  string
		list *[]int64
	}{{known[0], &c.up}, {known[1], &c.down}} {
		value := int64(noLimit)
		if text := strategy.text(limit.key); text != "" {
			var err error
			if value, err = strconv.ParseInt(text, 10, 32); err != nil || value < 0 {
				c.open(check.label, "%s = %q is not a count", limit.key, text)
			}
		}
		*limit.list = append(*limit.list, value)
	}
	c.ignored(strategy.fields, fmt.Sprintf("Of the strategy of check %q, ", check.label), known...)
}

// target sets the target value of a metric.
func (c *converter) target(check *block, text string, m *Metric) {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		c.open(check.label, "the target %q is not a number", text)
	case value <= 0:
		c.open(check.label, "the target %s is not greater than 0: use average_value = \"1\" to run one instance per unit of the value, or another target", text)
	case m.Type == external:
		m.Value = text
		m.Notes = append(m.Notes, "The count of ready instances is multiplied by the ratio; nomad-autoscaler multiplies the count of the job. If the query divides a total by the count, query the total and use average_value.")
	case m.AverageUtilization != 0:
		m.AverageUtilization = max(clamp(int64(math.Round(value))), 1)
	case m.Resource == "cpu":
		m.AverageValue = strconv.FormatFloat(value/100, 'f', -1, 64)
		m.Notes = append(m.Notes, "100 % in nomad-autoscaler is one core.")
	default:
		m.AverageValue = text
	}
}

// threshold adds an open note: hpad has no steps between bounds.
func (c *converter) threshold(check, strategy *block) {
	bounds, step := "", ""
	for _, key := range []string{"lower_bound", "upper_bound"} {
		if text := strategy.text(key); text != "" {
			bounds += fmt.Sprintf(" %s = %s", key, text)
		}
	}
	for _, key := range []string{"delta", "percentage", "value"} {
		if text := strategy.text(key); text != "" {
			step = fmt.Sprintf("%s = %s", key, text)
		}
	}
	c.open(check.label, "the strategy threshold (%s, %s) has no equivalent. Set a target value within the bounds, so that the count follows the value in proportion, "+
		"or set it and limit the steps with policies, for example { type = \"Instances\", value = 1, period = \"1m\" }", strings.TrimSpace(bounds), step)
}
