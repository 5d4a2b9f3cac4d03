package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// shownAtLeast is the shortest time for which a loss is shown, so that metrics are scraped in it.
const shownAtLeast = 5 * time.Minute

// recentLoss is a loss of state that still affects decisions.
type recentLoss struct {
	state.Loss
	// until is the end of the effect, by the wall clock.
	until time.Time
}

// recentLosses returns the losses that still affect decisions, which use data for as long as
// memory, oldest first.
func recentLosses(losses []state.Loss, memory time.Duration, clock *clock.Clock) []recentLoss {
	var recent []recentLoss
	for _, loss := range losses {
		scale, now := clock.Scale(), clock.Now()
		until := scale.Happened(loss.At, now).Add(max(shownAtLeast, memory))
		if now.Before(until) {
			recent = append(recent, recentLoss{Loss: loss, until: scale.Wall(until).UTC()})
		}
	}
	return recent
}

// lossText describes losses.
func lossText(losses []recentLoss) string {
	var texts []string
	for _, loss := range losses {
		texts = append(texts, fmt.Sprintf("at %s: %s; shown until %s",
			loss.At.Format(time.RFC3339), loss.Message, loss.until.Format(time.RFC3339)))
	}
	return strings.Join(texts, "; ")
}

// lostParts reports for each part of the state whether it was lost recently.
func lostParts(losses []recentLoss) map[string]bool {
	lost := make(map[string]bool, len(state.Parts))
	for _, part := range state.Parts {
		lost[string(part)] = false
	}
	for _, loss := range losses {
		lost[string(loss.Part)] = true
	}
	return lost
}
