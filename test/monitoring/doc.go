// Package monitoring compares the alert rules, the scrape configuration and the dashboard in
// configs with the metrics of a running hpad. It uses real Prometheus servers and a real promtool.
package monitoring
