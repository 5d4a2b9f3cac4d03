package clock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootIDFile has the id of the present boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machineBoot returns the id of the present boot and what CLOCK_MONOTONIC shows,
// which Go's own monotonic readings count on from.
func machineBoot() (id string, reading time.Duration) {
	text, err := os.ReadFile(bootIDFile)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return "", 0 // each start then counts as one of another boot
	}
	return strings.TrimSpace(string(text)), time.Duration(now.Nano())
}
