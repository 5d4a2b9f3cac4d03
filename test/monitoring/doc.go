// Package monitoring holds the alert rules, the scrape configuration and the
// dashboard of configs against what a running hpad exports, with real Prometheus
// servers and their promtool.
package monitoring
