package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// leastShown is for how long a loss of state is shown at least: whoever scrapes must have
// a chance to see it.
const leastShown = 5 * time.Minute

// recentLoss is a loss that still bears on decisions.
type recentLoss struct {
	state.Loss
	// until is when it does not any more, by the wall clock.
	until time.Time
}

// recentLosses returns what of the state was lost so lately that it still bears on
// decisions, which look back for as long as memory, oldest first. How long ago that is
// the steady clock measures.
func recentLosses(losses []state.Loss, memory time.Duration, clock *clock.Clock) []recentLoss {
	var recent []recentLoss
	for _, loss := range losses {
		scale, now := clock.Scale(), clock.Now()
		until := scale.Happened(loss.At, now).Add(max(leastShown, memory))
		if now.Before(until) {
			recent = append(recent, recentLoss{Loss: loss, until: scale.Wall(until).UTC()})
		}
	}
	return recent
}

// lossText says what of the state was lost; empty when nothing was.
func lossText(losses []recentLoss) string {
	var texts []string
	for _, loss := range losses {
		texts = append(texts, fmt.Sprintf("at %s: %s; shown until %s",
			loss.At.Format(time.RFC3339), loss.Message, loss.until.Format(time.RFC3339)))
	}
	return strings.Join(texts, "; ")
}

// lostParts reports of each part of the state whether it was lost lately.
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
