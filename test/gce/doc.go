// Package gce tries hpad's daemon on managed instance groups: on an imitation of the
// Compute Engine API that is held against the API's own documents, with the metrics
// of a real Prometheus. Google's own command line judges the imitation, where it is
// there.
package gce
