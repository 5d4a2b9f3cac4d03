package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// startTimes is the set of local minutes at which a window starts. Each field is a bit set.
type startTimes struct {
	minutes, hours, days, months, weekdays uint64
	// eitherDay is set if a matching day or a matching weekday is sufficient, as in cron.
	eitherDay bool
	// wildcard is set if the minute or the hour begins with "*". As in Debian's cron, such an
	// expression follows the clock when it is set forward or back; any other one starts once.
	wildcard bool
}

// cronField is one of the five fields of a cron expression.
type cronField struct {
	name      string
	low, high int
	// names lists the names of the values, starting with low.
	names string
}

const weekdayField = "weekday"

var cronFields = [...]cronField{
	{"minute", 0, 59, ""},
	{"hour", 0, 23, ""},
	{"day of the month", 1, 31, ""},
	{"month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
	{weekdayField, 0, 7, "sun mon tue wed thu fri sat"}, // 7 is also Sunday
}

// parseCron parses the five fields of a cron expression.
func parseCron(text string) (s startTimes, err error) {
	fields := strings.Fields(text)
	if remedy := dialect(text); remedy != "" || len(fields) == 0 {
		return s, errors.New(remedy)
	}
	sets := [...]*uint64{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays}
	for i, field := range fields {
		if *sets[i], err = cronFields[i].parse(field); err != nil {
			return s, err
		}
	}
	s.weekdays |= s.weekdays >> 7 & 1
	s.wildcard = fields[0][0] == '*' || fields[1][0] == '*'
	s.eitherDay = fields[2][0] != '*' && fields[4][0] != '*'
	return s, nil
}

// parse parses a list of values, ranges and steps.
func (f cronField) parse(list string) (set uint64, err error) {
	for part := range strings.SplitSeq(list, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		first, last, ranged := strings.Cut(span, "-")
		low, lowKnown := f.value(first)
		high, highKnown := f.value(last)
		switch {
		case span == "*":
			low, high, lowKnown, highKnown = f.low, f.high, true, true
		case !ranged && stepped:
			high, highKnown = f.high, true
		case !ranged:
			high, highKnown = low, true
		}
		step := 1
		if stepped {
			var number uint64
			number, err = strconv.ParseUint(stepText, 10, 8)
			step = int(number)
		}
		if err != nil || step < 1 || !lowKnown || !highKnown || low > high {
			if remedy := f.remedy(part); remedy != "" {
				return 0, fmt.Errorf("%q is not valid as %s: %s", part, f.name, remedy)
			}
			return 0, fmt.Errorf("%q is not valid as %s: use *, a value from %d to %d, a range, a list or a step", part, f.name, f.low, f.high)
		}
		for value := low; value <= high; value += step {
			set |= 1 << value
		}
	}
	return set, nil
}

func (f cronField) value(text string) (int, bool) {
	for i, name := range strings.Fields(f.names) {
		if strings.EqualFold(name, text) {
			return f.low + i, true
		}
	}
	number, err := strconv.ParseUint(text, 10, 8) // no sign
	return int(number), err == nil && int(number) >= f.low && int(number) <= f.high
}

// onDate reports whether a window can start on a date.
func (s *startTimes) onDate(date time.Time) bool {
	day, weekday := s.days>>date.Day()&1 == 1, s.weekdays>>date.Weekday()&1 == 1
	return s.months>>date.Month()&1 == 1 && (day && weekday || s.eitherDay && (day || weekday))
}

// lastUpTo returns the last start on a date up to a minute of the day, and false without such a start.
func (s *startTimes) lastUpTo(minute int) (int, bool) {
	if minutes := s.minutes << (63 - minute%60); s.hours>>(minute/60)&1 == 1 && minutes != 0 {
		return minute - bits.LeadingZeros64(minutes), true
	}
	hours := s.hours & (1<<(minute/60) - 1)
	return (bits.Len64(hours)-1)*60 + bits.Len64(s.minutes) - 1, hours != 0
}

// widest returns the longest distance between two starts on a date.
func (s *startTimes) widest() (widest time.Duration) {
	last, _ := s.firstFrom(0)
	for next, ok := s.firstFrom(last + 1); ok; next, ok = s.firstFrom(last + 1) {
		widest = max(widest, time.Duration(next-last)*time.Minute)
		last = next
	}
	return widest
}

// firstFrom returns the first start on a date from a minute of the day, and false without such a start.
func (s *startTimes) firstFrom(minute int) (int, bool) {
	if minutes := s.minutes >> (minute % 60); s.hours>>(minute/60)&1 == 1 && minutes != 0 {
		return minute + bits.TrailingZeros64(minutes), true
	}
	hours := s.hours &^ (1<<(minute/60+1) - 1)
	return bits.TrailingZeros64(hours)*60 + bits.TrailingZeros64(s.minutes), hours != 0
}
