// Package status shows a daemon: its autoscalers, health, history and metrics, as the API returns
// them. All times are wall-clock times.
package status
