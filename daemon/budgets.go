package daemon

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
)

// budgets bound what the queries of all sources take together.
type budgets struct {
	// answers is in bytes, samples in samples.
	answers, samples *sources.Budget
}

// AnswerBudget returns a budget of answers as a configuration has it.
func AnswerBudget(c config.Daemon) *sources.Budget { return answerBudget(c, nil) }

func answerBudget(c config.Daemon, released func()) *sources.Budget {
	bytes := int64(cmp.Or(c.AnswerMemory, config.DefaultDaemon().AnswerMemory))
	return sources.NewBudget(bytes, fmt.Sprintf("daemon.answer_memory = %q", quantity.FormatBytes(bytes*1000)), released)
}

func newBudgets(c config.Daemon) budgets {
	var memory reclaimer
	samples := cmp.Or(c.QuerySamples, config.DefaultDaemon().QuerySamples)
	return budgets{
		answers: answerBudget(c, memory.reclaim),
		samples: sources.NewBudget(samples, fmt.Sprintf("daemon.query_samples = %d", samples), memory.reclaim),
	}
}

// usage returns how the budgets are used.
func (b budgets) usage() metrics.Budgets {
	return metrics.Budgets{Answers: b.answers.Usage(), Samples: b.samples.Usage()}
}

// How long after a large answer its memory is given back to the system: not before
// others that come with it are through, and not more often, since it takes a
// collection of all garbage. Without it the collector keeps as much again for the
// next one, and gives it back over minutes.
const reclaimDelay = 10 * time.Second

// reclaimer gives memory back to the system. The zero value is ready to use.
type reclaimer struct{ due atomic.Bool }

// reclaim has it done after a while, once for all that ask meanwhile.
func (r *reclaimer) reclaim() {
	if r.due.CompareAndSwap(false, true) {
		time.AfterFunc(reclaimDelay, func() {
			r.due.Store(false)
			debug.FreeOSMemory()
		})
	}
}
