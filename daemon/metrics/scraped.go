package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/sources"
)

// scraped is a collector that creates its series at each scrape, so that the registry does not
// contain them in advance.
type scraped func(metrics chan<- prometheus.Metric)

// Describe sends no descriptors, so that the registry does not call Collect before the daemon runs.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect sends the series.
func (s scraped) Collect(metrics chan<- prometheus.Metric) { s(metrics) }

// atScrape registers a function that sends series at each scrape.
func (m *Metrics) atScrape(send func(metrics chan<- prometheus.Metric)) {
	if m.registry != nil {
		m.registry.MustRegister(scraped(send))
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hpad_"+name, help, labels, nil)
}

// Breaker is the state of a fleet's breaker.
type Breaker struct {
	// Open reports whether the breaker blocks all scale-downs.
	Open bool
	// Removed is the number of instances that were removed within the breaker's window.
	Removed int64
}

var (
	breakerOpen    = newDesc("fleet_breaker_open", "Whether the breaker of a fleet holds all its scale-downs: 1 or 0.", "fleet")
	breakerRemoved = newDesc("fleet_breaker_removed", "Instances that the autoscalers of a fleet with a breaker removed within its window.", "fleet")
)

// ShowBreakers sets the function that returns the breakers by fleet.
func (m *Metrics) ShowBreakers(breakers func() map[string]Breaker) {
	m.atScrape(func(metrics chan<- prometheus.Metric) {
		for fleet, b := range breakers() {
			metrics <- gauge(breakerOpen, truth(b.Open), fleet)
			metrics <- gauge(breakerRemoved, float64(b.Removed), fleet)
		}
	})
}

// Budgets is the usage of the query budgets: Answers in bytes and Samples in samples.
type Budgets struct{ Answers, Samples sources.Usage }

var (
	budgetLimit    = newDesc("query_budget_limit", "Limit for all queries together, by budget: query_response_memory in bytes, query_samples in samples.", "budget")
	budgetUsed     = newDesc("query_budget_used", "Current use by all queries together, by budget.", "budget")
	budgetWaits    = newDesc("query_budget_waits_total", "Number of times that a query waited for other queries to release their share, by budget.", "budget")
	budgetRefusals = newDesc("query_budget_refusals_total", "Queries that failed because the budget was not available in time, or because they exceeded the limit of one query, by budget.", "budget")
)

// ShowBudgets sets the function that returns the budgets.
func (m *Metrics) ShowBudgets(budgets func() Budgets) {
	m.atScrape(func(metrics chan<- prometheus.Metric) {
		now := budgets()
		for name, usage := range map[string]sources.Usage{"query_response_memory": now.Answers, "query_samples": now.Samples} {
			metrics <- gauge(budgetLimit, float64(usage.Total), name)
			metrics <- gauge(budgetUsed, float64(usage.Used), name)
			metrics <- counter(budgetWaits, float64(usage.Waits), name)
			metrics <- counter(budgetRefusals, float64(usage.Refusals), name)
		}
	})
}

// Cluster is the state of a member of a cluster.
type Cluster struct {
	// Member reports whether this hpad is currently a member and can reach the cluster's store.
	Member bool
	// Members is the number of members. Owned is the number of shared fleets that this member owns.
	// Unowned is the number of shared fleets without an owner.
	Members, Owned, Unowned int
	// Terms is the number of times that this member became an owner. Fenced is the number of its
	// writes that were rejected because its term had ended.
	Terms, Fenced int64
	// Offsets maps each reachable member to its minimum clock offset from this member in seconds.
	Offsets map[string]float64
}

var (
	clusterMember  = newDesc("cluster_member", "Whether this hpad is currently a member of its cluster and can reach the cluster's store: 1 or 0.")
	clusterMembers = newDesc("cluster_members", "Members of the cluster.")
	clusterOwned   = newDesc("cluster_owned_fleets", "Shared fleets that this member owns.")
	clusterUnowned = newDesc("cluster_unowned_fleets", "Shared fleets without an owner.")
	clusterTerms   = newDesc("cluster_terms_total", "Number of times that this member became the owner of a fleet.")
	clusterFenced  = newDesc("cluster_fenced_writes_total", "Writes to the cluster's store that were rejected because this member was no longer the owner.")
	clusterOffset  = newDesc("cluster_clock_offset_seconds", "Minimum offset of another member's clock from this member's clock; negative if it is behind.", "member")
)

// ShowCluster sets the function that returns the member's state.
func (m *Metrics) ShowCluster(cluster func() Cluster) {
	m.atScrape(func(metrics chan<- prometheus.Metric) {
		c := cluster()
		metrics <- gauge(clusterMember, truth(c.Member))
		metrics <- gauge(clusterMembers, float64(c.Members))
		metrics <- gauge(clusterOwned, float64(c.Owned))
		metrics <- gauge(clusterUnowned, float64(c.Unowned))
		metrics <- counter(clusterTerms, float64(c.Terms))
		metrics <- counter(clusterFenced, float64(c.Fenced))
		for member, offset := range c.Offsets {
			metrics <- gauge(clusterOffset, offset, member)
		}
	})
}

var discoveredTargets = newDesc("discovered_targets", "Targets with labels in a fleet, by state of the labels: active, disabled, invalid or overridden.", "fleet", "state")

// ShowDiscovered sets the function that returns the targets with labels. A fleet with such targets
// gets a series for every state.
func (m *Metrics) ShowDiscovered(discovered func() []api.Discovered) {
	m.atScrape(func(metrics chan<- prometheus.Metric) {
		type group struct {
			fleet string
			state api.DiscoveredState
		}
		counts := map[group]int{}
		for _, target := range discovered() {
			fleet, _, _ := strings.Cut(target.Reference, "/")
			for _, state := range api.DiscoveredStates {
				counts[group{fleet, state}] += 0
			}
			counts[group{fleet, target.State}]++
		}
		for of, count := range counts {
			metrics <- gauge(discoveredTargets, float64(count), of.fleet, string(of.state))
		}
	})
}

var stateLost = newDesc("state_lost", "Whether a part of the state was lost recently: 1 or 0. The part is memory, history, or directory, which was removed while hpad ran.", "part")

// ShowLost sets the function that returns the recently lost parts of the state.
func (m *Metrics) ShowLost(lost func() map[string]bool) {
	m.atScrape(func(metrics chan<- prometheus.Metric) {
		for part, is := range lost() {
			metrics <- gauge(stateLost, truth(is), part)
		}
	})
}

var (
	notificationsSent    = newDesc("notifications_sent_total", "Notifications that were delivered.", "receiver")
	notificationsFailed  = newDesc("notifications_failed_total", "Notifications that the receiver rejected, or that did not arrive within give_up_after.", "receiver")
	notificationsDropped = newDesc("notifications_dropped_total", "Notifications that were lost because the queue was full, or because hpad stopped.", "receiver")
	notificationsWaiting = newDesc("notifications_waiting", "Notifications in the queue.", "receiver")
)

// ShowReceivers sets the function that returns the receivers.
func (m *Metrics) ShowReceivers(receivers func() map[string]notify.Counts) {
	m.atScrape(func(metrics chan<- prometheus.Metric) {
		for name, r := range receivers() {
			metrics <- counter(notificationsSent, float64(r.Sent), name)
			metrics <- counter(notificationsFailed, float64(r.Failed), name)
			metrics <- counter(notificationsDropped, float64(r.Dropped), name)
			metrics <- gauge(notificationsWaiting, float64(r.Waiting), name)
		}
	})
}
