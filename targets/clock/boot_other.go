//go:build !linux

package clock

import "time"

// machineBoot knows no boot: each start then counts as one of another.
func machineBoot() (id string, reading time.Duration) { return "", 0 }
