package daemon

import (
	"cmp"
	"fmt"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
)

// budgets limits the memory that all query results use together.
type budgets struct {
	// results limits the size of query results in bytes, and samples limits their number of
	// samples.
	results, samples *sources.Budget
}

// AnswerBudget returns the configured budget for the size of query results.
func AnswerBudget(c config.Daemon) *sources.Budget {
	bytes := int64(cmp.Or(c.QueryResponseMemory, config.DefaultDaemon().QueryResponseMemory))
	return sources.NewBudget(bytes, fmt.Sprintf("daemon.query_response_memory = %q", quantity.FormatBytes(bytes*1000)))
}

func newBudgets(c config.Daemon) budgets {
	samples := cmp.Or(c.QuerySamples, config.DefaultDaemon().QuerySamples)
	return budgets{
		results: AnswerBudget(c),
		samples: sources.NewBudget(samples, fmt.Sprintf("daemon.query_samples = %d", samples)),
	}
}

func (b budgets) usage() metrics.Budgets {
	return metrics.Budgets{Answers: b.results.Usage(), Samples: b.samples.Usage()}
}
