package compose

import (
	"strconv"
	"strings"
	"time"
)

// A list has no start of a container, only for about how long it has been up: "Up 5
// minutes". That is enough to see, without an inspection, that one has started again.

// uptime bounds how long a container has been up.
type uptime struct {
	least, most time.Duration
}

// uptimeUnits are the engine's units of time.
var uptimeUnits = map[string]time.Duration{
	"second": time.Second,
	"minute": time.Minute,
	"hour":   time.Hour,
	"day":    24 * time.Hour,
	"week":   7 * 24 * time.Hour,
	"month":  30 * 24 * time.Hour,
	"year":   365 * 24 * time.Hour,
}

// parseUptime reads the engine's words for a running container.
func parseUptime(status string) (uptime, bool) {
	words, ok := strings.CutPrefix(status, "Up ")
	if !ok {
		return uptime{}, false
	}
	words, _, _ = strings.Cut(words, " (")
	if words == "Less than a second" {
		return uptime{most: time.Second}, true
	}
	words = strings.TrimPrefix(words, "About ")
	count, name, ok := strings.Cut(words, " ")
	if !ok {
		return uptime{}, false
	}
	n, err := strconv.Atoi(count)
	if count == "a" || count == "an" {
		n, err = 1, nil
	}
	unit, known := uptimeUnits[strings.TrimSuffix(name, "s")]
	if err != nil || !known || n < 1 {
		return uptime{}, false
	}
	up := uptime{least: time.Duration(n) * unit, most: time.Duration(n+1) * unit}
	if unit >= time.Hour {
		up.least -= time.Hour / 2 // hours are rounded, and what is longer is made of them
	}
	return up, true
}

// restartedSince reports whether a container which had been up for the given time a
// while ago has started since then. With a status that cannot be read it may have.
func (before uptime) restartedSince(ago time.Duration, status string) bool {
	up, ok := parseUptime(status)
	return !ok || up.most < before.least+ago-clockSlack
}

// clockSlack is how much the time between two lists may be wrong by: the engine read its
// clock at some time between call and result.
const clockSlack = time.Second
