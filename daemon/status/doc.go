// Package status provides the state of a daemon for the API: its autoscalers, health, history and
// metrics. All times are wall-clock times.
package status
