package schedule

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// macros maps the macros of cron to expressions.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// calendar matches the dates, times, ranges and shorthands of systemd's calendar expressions.
var calendar = regexp.MustCompile(`(?i)\.\.|[0-9*]:[0-9*]|[0-9*]-[0-9*]+-[0-9*]|^\s*(minutely|hourly|daily|weekly|monthly|quarterly|semiannually|yearly|annually)\b`)

// dialect returns the remedy for an expression of another dialect of cron, or an empty string.
func dialect(text string) string {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "is required with duration"
	}
	first, rest := fields[0], strings.Join(fields[1:], " ")
	key, value, assigned := strings.Cut(first, "=")
	inner, wrapped := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(text), ")"), "cron(")
	switch {
	case assigned && (strings.EqualFold(key, "TZ") || strings.EqualFold(key, "CRON_TZ")):
		if expression, ok := macros[strings.ToLower(rest)]; ok {
			rest = expression
		}
		return fmt.Sprintf("must not contain a time zone: set zone = %q and cron = %q", strings.Trim(value, `"'`), rest)
	case wrapped:
		parts := strings.Fields(inner)
		if len(parts) == len(cronFields)+1 { // the year of EventBridge
			parts = parts[:len(cronFields)]
		}
		return fmt.Sprintf("must not be in cron(…): use %q, with weekdays from 0 (Sunday) to 6", strings.ReplaceAll(strings.Join(parts, " "), "?", "*"))
	case strings.HasPrefix(text, "rate("):
		return "is not a cron expression: use a step, such as \"*/5 * * * *\" for each 5 minutes"
	case strings.HasPrefix(first, "@"):
		return macro(strings.ToLower(first), rest)
	case len(fields) != len(cronFields) && calendar.MatchString(text):
		return `must not be a calendar expression of systemd: use 5 fields, such as "0 8 * * mon-fri" for Mon..Fri 08:00`
	case len(fields) != len(cronFields) && strings.Contains(text, ", "):
		return "must not contain a space after a comma"
	case len(fields) > len(cronFields):
		return fmt.Sprintf("must have 5 fields (minute, hour, day of the month, month, weekday), not %d: remove the seconds at the start, and a year, a user or a command at the end", len(fields))
	case len(fields) < len(cronFields):
		return fmt.Sprintf("must have 5 fields (minute, hour, day of the month, month, weekday), not %d: add \"*\" for each missing field", len(fields))
	}
	return ""
}

func macro(name, rest string) string {
	if expression, ok := macros[name]; ok {
		return fmt.Sprintf("must not be a macro: use %q", expression)
	}
	if every, err := time.ParseDuration(rest); name == "@every" && err == nil {
		switch minutes, hours := int(every/time.Minute), int(every/time.Hour); {
		case minutes > 0 && minutes < 60 && 60%minutes == 0 && every%time.Minute == 0:
			return fmt.Sprintf("must not be a macro: use \"*/%d * * * *\"", minutes)
		case hours > 0 && hours < 24 && 24%hours == 0 && every%time.Hour == 0:
			return fmt.Sprintf("must not be a macro: use \"0 */%d * * *\"", hours)
		}
	}
	return "must not be a macro: use 5 fields, such as \"0 */2 * * *\" for each second hour"
}

// remedy returns the remedy for a part of a field that is not valid, or an empty string.
func (f cronField) remedy(part string) string {
	span, stepText, _ := strings.Cut(part, "/")
	step, _ := strconv.Atoi(stepText)
	first, last, ranged := strings.Cut(span, "-")
	low, lowKnown := f.value(first)
	high, highKnown := f.value(last)
	short := f.abbreviated(span)
	switch upper := strings.ToUpper(part); {
	case strings.Contains(part, "?"):
		return `use "*" instead of "?"`
	case strings.Contains(part, "#"):
		return "the nth weekday of a month is not supported: use one schedule with start and end for each date"
	case short != "":
		return fmt.Sprintf("use %q", short)
	case upper == "L", upper == "LW", strings.HasPrefix(upper, "L-"), len(upper) > 1 && strings.HasSuffix(upper, "L"):
		return "the last day of a month is not supported: use one schedule with start and end for each date"
	case len(upper) > 1 && strings.HasSuffix(upper, "W"):
		return "the nearest weekday is not supported: use one schedule with start and end for each date"
	case upper == "H", strings.HasPrefix(upper, "H/"), strings.HasPrefix(upper, "H("), strings.Contains(part, "~"):
		return "a hashed or random value is not supported: choose a value"
	case stepText == "0":
		return fmt.Sprintf("a step must be from 1 to %d", f.high)
	case ranged && lowKnown && highKnown && low > high && step > 0:
		return fmt.Sprintf("a range must not wrap around: use %q", f.listed(low, high, step))
	case ranged && lowKnown && highKnown && low > high:
		return fmt.Sprintf("a range must not wrap around: use %q", f.unwrapped(first, last))
	}
	return ""
}

// listed returns the values of a range with a step that wraps around.
func (f cronField) listed(low, high, step int) string {
	size := f.high - f.low + 1
	if f.name == weekdayField {
		size = 7 // 7 is Sunday, as 0
	}
	var values []string
	for value := low; value <= high+size; value += step {
		values = append(values, strconv.Itoa(f.low+(value-f.low)%size))
	}
	return strings.Join(values, ",")
}

// unwrapped returns the two ranges for a range that wraps around.
func (f cronField) unwrapped(first, last string) string {
	lowest, highest := fmt.Sprint(f.low), fmt.Sprint(f.high)
	if f.name == weekdayField {
		highest = "6"
		if first == "7" { // Sunday, as 0
			return "0-" + last
		}
	}
	if names := strings.Fields(f.names); len(names) > 0 && strings.Contains(f.names, strings.ToLower(first)) {
		lowest, highest = names[0], names[len(names)-1]
	}
	join := func(low, high string) string {
		if strings.EqualFold(low, high) {
			return low
		}
		return low + "-" + high
	}
	return join(first, highest) + "," + join(lowest, last)
}

// longNames are names that have an abbreviation of three letters.
const longNames = " sunday monday tuesday wednesday thursday friday saturday january february march april june july august september october november december tues wednes thur thurs sept "

// abbreviated returns a range of long names with their abbreviations, or an empty string.
func (f cronField) abbreviated(span string) string {
	short := strings.Split(strings.ToLower(span), "-")
	for i, name := range short {
		if len(name) > 3 && strings.Contains(longNames, " "+name+" ") {
			short[i] = name[:3]
		}
		if _, known := f.value(short[i]); !known {
			return ""
		}
	}
	if text := strings.Join(short, "-"); text != strings.ToLower(span) {
		return text
	}
	return ""
}
