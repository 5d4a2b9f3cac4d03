package metrics

import "github.com/prometheus/client_golang/prometheus"

// Cluster is how a member of a cluster stands.
type Cluster struct {
	// Member reports whether it is one now, and reaches the cluster's store.
	Member bool
	// Members is how many there are, Owned how many shared fleets this one owns, and
	// Unowned how many nobody does.
	Members, Owned, Unowned int
	// Terms is how often this member became the owner of a fleet, and Fenced how many of
	// its writes were refused because a term was over.
	Terms, Fenced int64
	// Offsets is by how many seconds the clocks of the other members are ahead of this
	// one's at least, by their names; those that did not answer last are not in it.
	Offsets map[string]float64
}

var (
	clusterMemberDesc  = prometheus.NewDesc("hpad_cluster_member", "Whether this hpad is a member of its cluster now, and reaches the cluster's store: 1 or 0.", nil, nil)
	clusterMembersDesc = prometheus.NewDesc("hpad_cluster_members", "Members of the cluster.", nil, nil)
	clusterOwnedDesc   = prometheus.NewDesc("hpad_cluster_owned_fleets", "Shared fleets that this member owns.", nil, nil)
	clusterUnownedDesc = prometheus.NewDesc("hpad_cluster_unowned_fleets", "Shared fleets that nobody owns.", nil, nil)
	clusterTermsDesc   = prometheus.NewDesc("hpad_cluster_terms_total", "How often this member became the owner of a fleet.", nil, nil)
	clusterFencedDesc  = prometheus.NewDesc("hpad_cluster_fenced_writes_total", "Writes to the cluster's store that were refused because this member was not the owner any more.", nil, nil)
	clusterOffsetDesc  = prometheus.NewDesc("hpad_cluster_clock_offset_seconds", "By how much the clock of another member is ahead of this one's at least; below zero it is behind.", []string{"member"}, nil)
)

// ShowCluster sets where it comes from how the member stands, once per scrape.
func (m *Metrics) ShowCluster(cluster func() Cluster) { m.cluster.view.Store(&cluster) }

func sendCluster(c Cluster, metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(clusterMemberDesc, prometheus.GaugeValue, truth(c.Member))
	metrics <- prometheus.MustNewConstMetric(clusterMembersDesc, prometheus.GaugeValue, float64(c.Members))
	metrics <- prometheus.MustNewConstMetric(clusterOwnedDesc, prometheus.GaugeValue, float64(c.Owned))
	metrics <- prometheus.MustNewConstMetric(clusterUnownedDesc, prometheus.GaugeValue, float64(c.Unowned))
	metrics <- prometheus.MustNewConstMetric(clusterTermsDesc, prometheus.CounterValue, float64(c.Terms))
	metrics <- prometheus.MustNewConstMetric(clusterFencedDesc, prometheus.CounterValue, float64(c.Fenced))
	for member, offset := range c.Offsets {
		metrics <- prometheus.MustNewConstMetric(clusterOffsetDesc, prometheus.GaugeValue, offset, member)
	}
}
