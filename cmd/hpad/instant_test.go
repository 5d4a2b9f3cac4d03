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
		"2026-11-20T08:00:01+01:00": "2026-11-20T07:00:01Z",
	} {
		if got, err := parseInstant(text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("parseInstant(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-5m", "25:00", "2026-13-01"} {
		if got, err := parseInstant(text, now); err == nil {
			t.Errorf("parseInstant(%q) = %v, want an error", text, got)
		}
	}
}
