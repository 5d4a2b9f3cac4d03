// Package gce tests hpad with the fake Compute Engine of package gcetest and a real Prometheus.
package gce
