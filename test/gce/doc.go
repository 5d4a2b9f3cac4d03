// Package gce tests hpad's daemon with managed instance groups: with a fake server of the Compute
// Engine API, and the metrics of a real Prometheus. The gcloud command line checks the fake
// server if it is installed.
package gce
