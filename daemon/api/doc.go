// Package api is the HTTP interface of the daemon: the JSON API with its types and its client,
// health, readiness, reload, metrics and profiles.
package api
