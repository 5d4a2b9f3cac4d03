package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
)

// abbreviations maps abbreviations of time zones to zones that set their clocks forward in summer. Some
// of them are names of the IANA database, of zones without summer time.
var abbreviations = map[string]string{
	"EST": "America/New_York", "EDT": "America/New_York", "CST": "America/Chicago", "CDT": "America/Chicago",
	"MST": "America/Denver", "MDT": "America/Denver", "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles",
	"GMT": "Europe/London", "BST": "Europe/London", "CEST": "Europe/Berlin", "EEST": "Europe/Athens", "AEST": "Australia/Sydney",
	"AEDT": "Australia/Sydney", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MSK": "Europe/Moscow",
}

// zoneHint suggests a zone for an abbreviation, or returns an empty string.
func zoneHint(name string) string {
	if zone, ok := abbreviations[strings.ToUpper(name)]; ok {
		return "; did you mean " + strconv.Quote(zone) + "?"
	}
	return ""
}

// Suspects returns values of the schedule that are valid and probably not intended. The value of
// each entry is empty.
func (r *Rule) Suspects() (found settings.FieldErrors) {
	name := strings.ToUpper(r.Zone)
	switch zone := abbreviations[strings.TrimSuffix(strings.TrimPrefix(name, "ETC/"), "0")]; {
	case zone != "":
		found.Add("zone", "", fmt.Sprintf("has no summer time: use %q if the clocks change there, or \"UTC\" or a place without summer time", zone))
	case strings.HasPrefix(name, "ETC/GMT+"), strings.HasPrefix(name, "ETC/GMT-"):
		found.Add("zone", "", fmt.Sprintf("has no summer time and an inverted sign, it is UTC%s: use the name of a place, such as \"Europe/Berlin\"", time.Unix(0, 0).In(r.zone).Format("-07:00")))
	}
	for key, text := range map[string]string{"to": r.To, "end": r.End} {
		if !strings.HasSuffix(text, ":59") {
			continue
		}
		remedy := "use the next full hour"
		switch {
		case text == "23:59":
			remedy = "leave it out for midnight"
		case strings.HasSuffix(text, " 23:59"):
			remedy = fmt.Sprintf("use %q, which includes the whole day", strings.TrimSuffix(text, " 23:59"))
		}
		found.Add(key, "", "is the end of the window, which leaves a gap of a minute before the full hour: "+remedy)
	}
	if r.From != "" && r.length == day-time.Minute && !strings.HasSuffix(r.To, ":59") {
		found.Add("to", "", fmt.Sprintf("leaves a gap of a minute each day: use %q", r.From))
	}
	if r.Cron != "" && (r.Duration+time.Minute)%time.Hour == 0 {
		found.Add("duration", "", fmt.Sprintf("leaves a gap of a minute before the full hour: use %q", settings.Span(r.Duration+time.Minute)))
	}
	return found
}

// Idle returns the indexes of the rules without an effect, because their values equal base and
// no other rule sets the same key to another value.
func (rules Rules) Idle(base State) (idle []int) {
	for i := range rules {
		r := &rules[i]
		matters := func(other *Rule) bool {
			return r.MinReplicas != nil && other.MinReplicas != nil && *other.MinReplicas != base.Min ||
				r.MaxReplicas != nil && other.MaxReplicas != nil && *other.MaxReplicas != base.Max ||
				r.Mode != "" && other.Mode != "" && other.Mode.String() != base.Mode.String()
		}
		others := slices.ContainsFunc(rules, func(other Rule) bool { return matters(&other) })
		if !others { // including r itself
			idle = append(idle, i)
		}
	}
	return idle
}
