package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// ShownAtLeast is the minimum time for which a loss is shown. It ensures that a scrape of the
// metrics contains the loss.
const ShownAtLeast = 5 * time.Minute

// RecentLoss is a loss of state that still affects decisions.
type RecentLoss struct {
	state.Loss
	// Until is when the effect ends, in wall-clock time.
	Until time.Time
}

// RecentLosses returns the losses that still affect decisions, oldest first. memory is the maximum
// age of data that decisions use.
func RecentLosses(losses []state.Loss, memory time.Duration, clock *clock.Clock) []RecentLoss {
	var recent []RecentLoss
	for _, loss := range losses {
		scale, now := clock.Scale(), clock.Now()
		until := scale.Happened(loss.At, now).Add(max(ShownAtLeast, memory))
		if now.Before(until) {
			recent = append(recent, RecentLoss{Loss: loss, Until: scale.Wall(until).UTC()})
		}
	}
	return recent
}

// LossText describes losses.
func LossText(losses []RecentLoss) string {
	var texts []string
	for _, loss := range losses {
		texts = append(texts, fmt.Sprintf("at %s: %s; shown until %s",
			loss.At.Format(time.RFC3339), loss.Message, loss.Until.Format(time.RFC3339)))
	}
	return strings.Join(texts, "; ")
}

// LostParts maps each part of the state to whether it was lost recently.
func LostParts(losses []RecentLoss) map[string]bool {
	lost := make(map[string]bool, len(state.Parts))
	for _, part := range state.Parts {
		lost[string(part)] = false
	}
	for _, loss := range losses {
		lost[string(loss.Part)] = true
	}
	return lost
}
