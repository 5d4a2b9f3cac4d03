// Package state keeps what must survive a restart: each autoscaler's memory,
// status and open intention, the last completed round, the fleets' own small
// stores, and the history of decisions.
package state
