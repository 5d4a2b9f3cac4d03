package metrics

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/sources"
)

// scraped reads its series from a view at each scrape. It has no series until the view is set.
type scraped[T any] struct {
	descs []*prometheus.Desc
	view  atomic.Pointer[func() T]
	send  func(now T, metrics chan<- prometheus.Metric)
}

func (s *scraped[T]) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range s.descs {
		descs <- desc
	}
}

func (s *scraped[T]) Collect(metrics chan<- prometheus.Metric) {
	if view := s.view.Load(); view != nil {
		s.send((*view)(), metrics)
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
	m.breakers.view.Store(&breakers)
}

func sendBreakers(breakers map[string]Breaker, metrics chan<- prometheus.Metric) {
	for fleet, b := range breakers {
		metrics <- gauge(breakerOpen, truth(b.Open), fleet)
		metrics <- gauge(breakerRemoved, float64(b.Removed), fleet)
	}
}

// Budgets is the usage of the query budgets: Answers in bytes and Samples in samples.
type Budgets struct{ Answers, Samples sources.Usage }

var (
	budgetLimit    = newDesc("query_budget_limit", "Limit of all queries together, by budget: query_response_memory in bytes, query_samples in samples.", "budget")
	budgetUsed     = newDesc("query_budget_used", "Current use of all queries together, by budget.", "budget")
	budgetWaits    = newDesc("query_budget_waits_total", "Times that a query waited for budget that other queries used, by budget.", "budget")
	budgetRefusals = newDesc("query_budget_refusals_total", "Queries that failed because the budget was not available in time, or because they exceeded the limit of one query, by budget.", "budget")
)

// ShowBudgets sets the function that returns the budgets.
func (m *Metrics) ShowBudgets(budgets func() Budgets) { m.budgets.view.Store(&budgets) }

func sendBudgets(now Budgets, metrics chan<- prometheus.Metric) {
	for name, usage := range map[string]sources.Usage{"query_response_memory": now.Answers, "query_samples": now.Samples} {
		metrics <- gauge(budgetLimit, float64(usage.Total), name)
		metrics <- gauge(budgetUsed, float64(usage.Used), name)
		metrics <- counter(budgetWaits, float64(usage.Waits), name)
		metrics <- counter(budgetRefusals, float64(usage.Refusals), name)
	}
}

// Cluster is the state of a member of a cluster.
type Cluster struct {
	// Member reports whether this hpad is currently a member and can reach the cluster's store.
	Member bool
	// Members is the number of members. Owned is the number of shared fleets that this member owns.
	// Unowned is the number of shared fleets without an owner.
	Members, Owned, Unowned int
	// Terms is the number of times that this member became an owner. Fenced is the number of its
	// writes that were rejected after a term.
	Terms, Fenced int64
	// Offsets maps each reachable member to its minimum clock offset from this member in seconds.
	Offsets map[string]float64
}

var (
	clusterMember  = newDesc("cluster_member", "Whether this hpad is a member of its cluster now and reaches the cluster's store: 1 or 0.")
	clusterMembers = newDesc("cluster_members", "Members of the cluster.")
	clusterOwned   = newDesc("cluster_owned_fleets", "Shared fleets that this member owns.")
	clusterUnowned = newDesc("cluster_unowned_fleets", "Shared fleets without an owner.")
	clusterTerms   = newDesc("cluster_terms_total", "Times that this member became the owner of a fleet.")
	clusterFenced  = newDesc("cluster_fenced_writes_total", "Writes to the cluster's store that were rejected because this member was no longer the owner.")
	clusterOffset  = newDesc("cluster_clock_offset_seconds", "Minimum difference of another member's clock to this member's clock; negative if it is behind.", "member")
)

// ShowCluster sets the function that returns the member's state.
func (m *Metrics) ShowCluster(cluster func() Cluster) { m.cluster.view.Store(&cluster) }

func sendCluster(c Cluster, metrics chan<- prometheus.Metric) {
	metrics <- gauge(clusterMember, truth(c.Member))
	metrics <- gauge(clusterMembers, float64(c.Members))
	metrics <- gauge(clusterOwned, float64(c.Owned))
	metrics <- gauge(clusterUnowned, float64(c.Unowned))
	metrics <- counter(clusterTerms, float64(c.Terms))
	metrics <- counter(clusterFenced, float64(c.Fenced))
	for member, offset := range c.Offsets {
		metrics <- gauge(clusterOffset, offset, member)
	}
}

var discoveredTargets = newDesc("discovered_targets", "Targets with labels in a fleet, by state of the labels: active, disabled, invalid or overridden.", "fleet", "state")

// ShowDiscovered sets the function that returns the targets with labels.
func (m *Metrics) ShowDiscovered(discovered func() []api.Discovered) {
	m.discovered.view.Store(&discovered)
}

// sendDiscovered sends a series for every state of every fleet that has a target with labels.
func sendDiscovered(discovered []api.Discovered, metrics chan<- prometheus.Metric) {
	type group struct {
		fleet string
		state api.DiscoveredState
	}
	counts := map[group]int{}
	for _, target := range discovered {
		fleet, _, _ := strings.Cut(target.Reference, "/")
		for _, state := range api.DiscoveredStates {
			counts[group{fleet, state}] += 0
		}
		counts[group{fleet, target.State}]++
	}
	for of, count := range counts {
		metrics <- gauge(discoveredTargets, float64(count), of.fleet, string(of.state))
	}
}

var stateLost = newDesc("state_lost", "Whether a part of the state was lost recently: 1 or 0. The part is memory, history, or directory, which was removed while hpad ran.", "part")

// ShowLost sets the function that returns the recently lost parts of the state.
func (m *Metrics) ShowLost(lost func() map[string]bool) { m.lost.view.Store(&lost) }

func sendLost(lost map[string]bool, metrics chan<- prometheus.Metric) {
	for part, is := range lost {
		metrics <- gauge(stateLost, truth(is), part)
	}
}

// Receiver counts the notifications of one receiver: delivered, expired or rejected, dropped
// because the queue was full or hpad stopped, and waiting.
type Receiver struct {
	Sent, Failed, Dropped uint64
	Waiting               int
}

var (
	notificationsSent    = newDesc("notifications_sent_total", "Notifications that arrived.", "receiver")
	notificationsFailed  = newDesc("notifications_failed_total", "Notifications that the receiver rejected, or that did not arrive within give_up_after.", "receiver")
	notificationsDropped = newDesc("notifications_dropped_total", "Notifications that were lost because the queue was full, or because hpad stopped.", "receiver")
	notificationsWaiting = newDesc("notifications_waiting", "Notifications in the queue.", "receiver")
)

// ShowReceivers sets the function that returns the receivers.
func (m *Metrics) ShowReceivers(receivers func() map[string]Receiver) {
	m.receivers.view.Store(&receivers)
}

func sendReceivers(receivers map[string]Receiver, metrics chan<- prometheus.Metric) {
	for name, r := range receivers {
		metrics <- counter(notificationsSent, float64(r.Sent), name)
		metrics <- counter(notificationsFailed, float64(r.Failed), name)
		metrics <- counter(notificationsDropped, float64(r.Dropped), name)
		metrics <- gauge(notificationsWaiting, float64(r.Waiting), name)
	}
}
