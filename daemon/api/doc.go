// Package api is the daemon's HTTP face: the JSON API with its types and its
// client, health, readiness, reload and metrics.
package api
