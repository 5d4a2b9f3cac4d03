// Package daemon runs the autoscalers of one configuration.
//
// A [Daemon] loads the configuration and the state, builds fleets and sources, activates
// configurations, and carries out the commands of users. Package round runs the passes, package
// records stores their results, package status shows them, and package server serves the API.
package daemon
