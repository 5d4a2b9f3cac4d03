package round

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/schedule"
)

// boundsChange describes a change to min or max since the last pass and its cause, such as "the
// configuration changed min from 1 to 3". It is empty without a change.
func (p *pass) boundsChange(before *Result) string {
	was, is := before.Record.Bounds, p.after.Record.Bounds
	if was == nil || *was == *is {
		return ""
	}
	var changed []string
	if was.Min != is.Min {
		changed = append(changed, fmt.Sprintf("min from %d to %d", was.Min, is.Min))
	}
	if was.Max != is.Max {
		changed = append(changed, fmt.Sprintf("max from %d to %d", was.Max, is.Max))
	}
	setsBounds := func(rule schedule.Rule) bool { return rule.MinReplicas != nil || rule.MaxReplicas != nil }
	return p.changeCause(before, setsBounds) + " changed " + strings.Join(changed, " and ")
}

// modeChange describes a change of the mode by a schedule since the last pass. It is empty without
// a change.
func (p *pass) modeChange(before *Result) string {
	configured, last := p.autoscaler.Definition(), before.Record.Through
	if len(configured.Schedules) == 0 || last.IsZero() || p.reconfigured {
		return ""
	}
	was, is := configured.At(p.round.scale.Wall(last)).Mode, configured.At(p.round.scale.Wall(p.now())).Mode
	if was == is {
		return ""
	}
	setsMode := func(rule schedule.Rule) bool { return rule.Mode != "" }
	return fmt.Sprintf("%s changed mode from %s to %s", p.changeCause(before, setsMode), was, is)
}

// changeCause returns the cause of a change to min, max or the mode. If the configuration is the
// same, it is the start or the end of schedules since the previous pass. Only rules that set the
// changed value are named.
func (p *pass) changeCause(before *Result, sets func(schedule.Rule) bool) string {
	if p.reconfigured {
		return "the configuration"
	}
	rules := slices.DeleteFunc(slices.Clone(p.definition.Schedules), func(rule schedule.Rule) bool { return !sets(rule) })
	activeAt := func(at time.Time) []string {
		return rules.At(p.round.scale.Wall(at), schedule.State{}).Active
	}
	earlier, now := activeAt(before.Record.Through), activeAt(p.now())
	var causes []string
	if started := without(now, earlier); started != "" {
		causes = append(causes, "the start of schedule "+started)
	}
	if ended := without(earlier, now); ended != "" {
		causes = append(causes, "the end of schedule "+ended)
	}
	if len(causes) == 0 { // the end of a ramp
		return "schedule " + strings.Join(now, ", ")
	}
	return strings.Join(causes, " and ")
}

// without lists the names that are not in others.
func without(names, others []string) string {
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	return strings.Join(rest, ", ")
}
