package main

import (
	"fmt"
	"time"
)

// instantForms says how parseInstant wants times.
const instantForms = `"15:04", "2006-01-02 15:04:05" (UTC), RFC 3339, or how long ago, as "90m"`

// parseInstant reads a time as a person writes it. A time of day is the last one
// that has been; zones that are not written are UTC, as hpad writes times.
func parseInstant(text string, now time.Time) (time.Time, error) {
	now = now.UTC()
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02 15:04:05 MST", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, time.UTC)
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: write it as %s", text, instantForms)
}
