package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/sources"
)

// Budgets are how the budgets of queries are used.
type Budgets struct {
	// The first is in bytes, the second in samples.
	Answers, Samples sources.Usage
}

// ShowBudgets sets where the usage of budgets comes from, once per scrape.
func (m *Metrics) ShowBudgets(budgets func() Budgets) { m.budgets.view.Store(&budgets) }

func budgetDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("hpad_"+name, help, []string{"budget"}, nil)
}

var (
	budgetLimitDesc    = budgetDesc("query_budget_limit", "What queries may hold together, by budget: answer_memory in bytes, query_samples in samples.")
	budgetUsedDesc     = budgetDesc("query_budget_used", "What queries hold together now, by budget.")
	budgetWaitsDesc    = budgetDesc("query_budget_waits_total", "Times that a query had to wait for others to give back what they held, by budget.")
	budgetRefusalsDesc = budgetDesc("query_budget_refusals_total", "Times that a query failed because there was no room in time, or because it wanted more than one may have, by budget.")
)

func sendBudgets(now Budgets, metrics chan<- prometheus.Metric) {
	for name, usage := range map[string]sources.Usage{"answer_memory": now.Answers, "query_samples": now.Samples} {
		metrics <- prometheus.MustNewConstMetric(budgetLimitDesc, prometheus.GaugeValue, float64(usage.Total), name)
		metrics <- prometheus.MustNewConstMetric(budgetUsedDesc, prometheus.GaugeValue, float64(usage.Used), name)
		metrics <- prometheus.MustNewConstMetric(budgetWaitsDesc, prometheus.CounterValue, float64(usage.Waits), name)
		metrics <- prometheus.MustNewConstMetric(budgetRefusalsDesc, prometheus.CounterValue, float64(usage.Refusals), name)
	}
}
