package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// instantForms describes the formats of parseInstant.
const instantForms = `"15:04", "2006-01-02 15:04:05" (local, or with an offset like -0700), RFC 3339, "today", "yesterday", or an age like "90m" or "10d"`

// parseDays parses a number of days, for example "10d".
func parseDays(text string) (int, bool) {
	number, days := strings.CutSuffix(text, "d")
	count, err := strconv.ParseUint(number, 10, 16)
	return int(count), days && err == nil
}

// parseSpan parses a duration, for example "90m" or "10d"; a day has 24 hours.
func parseSpan(text string) (time.Duration, bool) {
	if days, ok := parseDays(text); ok {
		return time.Duration(days) * 24 * time.Hour, true
	}
	span, err := time.ParseDuration(text)
	return span, err == nil
}

// parseInstant parses a time in one of the formats above. A time of day refers to the past, and
// "today" and "yesterday" refer to midnight. The default time zone is the zone of now. UTC is the
// only supported zone name, because the other names are ambiguous.
func parseInstant(text string, now time.Time) (time.Time, error) {
	if local, utc := strings.CutSuffix(text, " UTC"); utc {
		return parseInstant(local, now.UTC())
	}
	if days, ok := parseDays(text); ok {
		return now.AddDate(0, 0, -days), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	year, month, day := now.Date()
	switch text {
	case "today":
		return time.Date(year, month, day, 0, 0, 0, 0, now.Location()), nil
	case "yesterday":
		return time.Date(year, month, day-1, 0, 0, 0, 0, now.Location()), nil
	}
	for _, layout := range []string{
		time.RFC3339Nano, time.DateTime, "2006-01-02 15:04:05 -0700", time.RFC1123Z, // the formats that commands print
		"2006-01-02 15:04", time.DateOnly,
	} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at := time.Date(year, month, day, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
		if at.After(now) {
			at = time.Date(year, month, day-1, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q: must be %s", text, instantForms)
}
