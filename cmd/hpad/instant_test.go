package main

import (
	"testing"
	"time"
)

func TestParseInstant(t *testing.T) {
	for text, want := range map[string]string{
		"90m":                       "2026-11-21T10:30:20Z",
		"0s":                        "2026-11-21T12:00:20Z",
		"11:59":                     "2026-11-21T11:59:00Z",
		"12:00:20":                  "2026-11-21T12:00:20Z",
		"12:01":                     "2026-11-20T12:01:00Z",
		"2026-11-20":                "2026-11-20T00:00:00Z",
		"2026-11-20 08:00":          "2026-11-20T08:00:00Z",
		"2026-11-20 08:00:01":       "2026-11-20T08:00:01Z",
		"2026-11-20 08:00:01 UTC":   "2026-11-20T08:00:01Z",
		"2026-11-20 08:00:01 -0500": "2026-11-20T13:00:01Z",
		"10d":                       "2026-11-11T12:00:20Z",
		"today":                     "2026-11-21T00:00:00Z",
		"yesterday":                 "2026-11-20T00:00:00Z",
		"2026-11-20T08:00:01+01:00": "2026-11-20T07:00:01Z",
	} {
		if got, err := parseInstant(text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("parseInstant(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "tomorrow", "-5m", "-1d", "1.5d", "d", "99999d", "25:00", "2026-13-01", "2026-11-20 08:00:01 EST"} {
		if got, err := parseInstant(text, now); err == nil {
			t.Errorf("parseInstant(%q) = %v, want an error", text, got)
		}
	}
}

// TestParseInstantTimeZone checks that the default time zone is TZ, including on a day with 23
// hours.
func TestParseInstantTimeZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, time.March, 29, 12, 0, 0, 0, berlin) // the clocks changed from 02:00 to 03:00 on this day
	for text, want := range map[string]string{
		"11:59":                "2026-03-29T09:59:00Z",
		"13:00":                "2026-03-28T12:00:00Z",
		"1d":                   "2026-03-28T11:00:00Z",
		"24h":                  "2026-03-28T10:00:00Z",
		"today":                "2026-03-28T23:00:00Z",
		"yesterday":            "2026-03-27T23:00:00Z",
		"2026-03-29 08:00":     "2026-03-29T06:00:00Z",
		"2026-03-29T08:00:00Z": "2026-03-29T08:00:00Z",
		// The formats that explain and describe print.
		"2026-03-29 08:00:00 +0200":       "2026-03-29T06:00:00Z",
		"Sun, 29 Mar 2026 08:00:00 +0200": "2026-03-29T06:00:00Z",
		"2026-03-29 08:00:00 UTC":         "2026-03-29T08:00:00Z",
		"10:59 UTC":                       "2026-03-28T10:59:00Z",
	} {
		if got, err := parseInstant(text, at); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("parseInstant(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
}
