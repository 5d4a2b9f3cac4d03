// Package gce tests hpad against the fake Compute Engine of package gcetest and a real Prometheus.
package gce
