// Package schedule computes which schedules of an autoscaler are active at an instant, and which
// bounds and mode they set. A window lasts from the first instant when the local time
// reaches its start to the last instant when it reaches its end: these differ from the only
// such instant when a clock is set back. The package is pure and safe for concurrent use.
package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // hosts and images without time zones

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// Config is one schedule of an autoscaler. Its windows are daily (days, from and to), a single
// period (start and end), or given by cron and duration.
type Config struct {
	// Name identifies the schedule in messages; unique in the autoscaler.
	Name string `toml:"name" required:"it identifies the schedule in messages"`
	// Zone is the time zone of all dates and times: a name of the IANA database, such as
	// "Europe/Berlin" or "UTC".
	Zone string `toml:"zone"`
	// Days are the weekdays on which a daily window starts, such as "mon" or "mon-fri"; left out,
	// every day.
	Days []string `toml:"days" json:",omitempty"`
	// From is the start of a daily window as "15:04"; left out, midnight.
	From string `toml:"from" json:",omitempty"`
	// To is the end of a daily window as "15:04"; if it is not after from, it is on the next day;
	// left out, midnight.
	To string `toml:"to" json:",omitempty"`
	// Start is when a single period begins: a date as "2006-01-02", or a time as "2006-01-02
	// 15:04".
	Start string `toml:"start" requires:"end" json:",omitempty"`
	// End is when a single period ends, in the format of start. A date includes its whole day.
	End string `toml:"end" requires:"start" json:",omitempty"`
	// Cron is the start of each window as a cron expression with 5 fields, such as "30 2 * *
	// mon-fri".
	Cron string `toml:"cron" requires:"duration" json:",omitempty"`
	// Duration is the elapsed time from a start of cron to the end of the window: whole minutes, up
	// to 168h.
	Duration time.Duration `toml:"duration" min:"0s" max:"168h" whole:"1m" must:"whole minutes, up to \"168h\"" requires:"cron" json:",omitempty"`
	// Ramp raises the minimum this much before the start of a window, up to 12h.
	Ramp time.Duration `toml:"ramp" min:"0s" max:"12h" must:"from 0s to \"12h\"" requires:"min_replicas" json:",omitempty"`
	// Except are dates, as "2006-01-02", on which no daily or cron window starts.
	Except []string `toml:"except" excludes:"start end" json:",omitempty"`
	// MinReplicas replaces the autoscaler's min_replicas during the windows; 0 requires an Object or
	// External metric, or max_replicas = 0.
	MinReplicas *int32 `toml:"min_replicas" json:",omitempty"`
	// MaxReplicas replaces the autoscaler's max_replicas during the windows; with min_replicas = 0,
	// 0 stops the target, and the end of the window starts it again.
	MaxReplicas *int32 `toml:"max_replicas" json:",omitempty"`
	// Mode replaces the autoscaler's mode during the windows.
	Mode policy.Mode `toml:"mode" values:"on recommend up-only down-only off" json:",omitempty"`
}

// Rule is a valid Config with its parsed values.
type Rule struct {
	Config
	zone   *time.Location
	starts startTimes
	// length is the local time from the start to the end of a daily window.
	length time.Duration
	// widest is the longest distance between two starts of cron on a date.
	widest time.Duration
	// single is the window of start and end.
	single window
	except []time.Time
}

const (
	dateFormat   = time.DateOnly
	minuteFormat = "2006-01-02 15:04"
	clockFormat  = "15:04"
	modeOn       = "on"
)

// maxExcept is the maximum number of dates in except. Each search for a window reads all.
const maxExcept = 1000

// Compile validates a schedule and parses its values.
func Compile(c Config) (Rule, []settings.FieldError) {
	p := parser{rule: Rule{Config: c}, errs: settings.Validate(&c)}
	r := &p.rule
	p.zone()
	daily, period, cron := len(c.Days) > 0 || c.From != "" || c.To != "", c.Start != "" || c.End != "", c.Cron != "" || c.Duration != 0
	switch {
	case period && !daily && !cron:
		p.period()
	case cron && !daily && !period:
		p.cron()
	case daily && !period && !cron:
		p.daily()
	default:
		p.errs.Add("", "", "needs exactly one kind of window: days, from and to; start and end; or cron and duration")
	}
	for i, text := range c.Except {
		if i == maxExcept {
			p.errs.Add("except", "", fmt.Sprintf("has %d dates, and at most %d are possible", len(c.Except), maxExcept))
			break
		}
		r.except = append(r.except, p.time("except["+strconv.Itoa(i)+"]", text, dateFormat, `"2006-01-02"`))
	}
	if c.Mode == "" && c.MinReplicas == nil && c.MaxReplicas == nil {
		p.errs.Add("", "", "needs min_replicas, max_replicas or mode; otherwise it has no effect")
	}
	return p.rule, p.errs
}

// parser parses the values of a Config.
type parser struct {
	rule Rule
	errs settings.FieldErrors
}

func (p *parser) zone() {
	name := p.rule.Zone
	zone, err := time.LoadLocation(name)
	switch {
	case name == "":
		p.errs.Add("zone", "", `is required: a name of the IANA time zone database, such as "Europe/Berlin" or "UTC"`)
	case err != nil || name == "Local":
		p.errs.Add("zone", strconv.Quote(name), `is not a name of the IANA time zone database, such as "Europe/Berlin" or "UTC"`+zoneHint(name))
	default:
		p.rule.zone = zone
	}
}

// time parses a text, and adds an error with an example if it does not have the format.
func (p *parser) time(key, text, format, example string) time.Time {
	t, err := time.Parse(format, text)
	switch {
	case key == "to" && text == "24:00":
		p.errs.Add(key, strconv.Quote(text), "is not valid: leave it out for midnight")
	case err != nil:
		p.errs.Add(key, strconv.Quote(text), "is not valid: use the format of "+example)
	}
	return t
}

func (p *parser) daily() {
	r := &p.rule
	from, to := p.clock("from", r.From), p.clock("to", r.To)
	if r.length = to - from; r.length <= 0 {
		r.length += day
	}
	r.starts = startTimes{
		minutes: 1 << (from % time.Hour / time.Minute), hours: 1 << (from / time.Hour), days: ^uint64(0), months: ^uint64(0), weekdays: ^uint64(0),
	}
	if len(r.Days) == 0 {
		return
	}
	r.starts.weekdays = 0
	for i, text := range r.Days {
		set, ok := weekdays(text)
		if !ok {
			p.errs.Add("days["+strconv.Itoa(i)+"]", strconv.Quote(text), `must be a weekday or a range, such as "mon" or "mon-fri"`)
		}
		r.starts.weekdays |= set
	}
}

// weekdays parses a weekday or a range of weekdays. A range may wrap around the end of the week,
// such as fri-mon.
func weekdays(text string) (set uint64, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	names := strings.Fields(cronFields[4].names)
	index := func(name string) int { return slices.Index(names, strings.ToLower(name)) }
	low, high := index(first), index(first)
	if ranged {
		high = index(last)
	}
	if low < 0 || high < 0 {
		return 0, false
	}
	for at := low; ; at = (at + 1) % len(names) {
		set |= 1 << at
		if at == high {
			return set, true
		}
	}
}

// clock returns the time of day since midnight.
func (p *parser) clock(key, text string) time.Duration {
	if text == "" {
		return 0
	}
	t := p.time(key, text, clockFormat, `"08:30"`)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

func (p *parser) period() {
	r := &p.rule
	if r.Start == "" || r.End == "" {
		return // the tags record the error
	}
	known := len(p.errs)
	start, _ := p.local("start", r.Start)
	end, date := p.local("end", r.End)
	if date {
		end = end.Add(day)
	}
	if len(p.errs) == known && !end.After(start) {
		p.errs.Add("end", strconv.Quote(r.End), "must be after start, which is "+r.Start)
	}
	if len(p.errs) > known || r.zone == nil {
		return
	}
	if r.single = (window{r.first(start), r.last(end)}); r.single.empty() {
		p.errs.Add("start", strconv.Quote(r.Start), "never occurs: the clock is set forward and skips the period")
	}
}

// local parses a date or a local time.
func (p *parser) local(key, text string) (local time.Time, date bool) {
	if local, err := time.Parse(dateFormat, text); err == nil {
		return local, true
	}
	return p.time(key, text, minuteFormat, `"2006-01-02" or "2006-01-02 15:04"`), false
}

func (p *parser) cron() {
	r := &p.rule
	var err error
	switch r.starts, err = parseCron(r.Cron); {
	case r.Cron == "": // the tags record the error
	case err != nil:
		p.errs.Add("cron", strconv.Quote(r.Cron), err.Error())
	case !r.starts.occurs():
		p.errs.Add("cron", strconv.Quote(r.Cron), "never occurs: no date matches")
	}
	r.widest = r.starts.widest()
}

// occurs reports whether a date matches. Dates and weekdays repeat after 28 years.
func (s *startTimes) occurs() bool {
	for date := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); date.Year() < 2028; date = date.Add(day) {
		if s.onDate(date) {
			return true
		}
	}
	return false
}
