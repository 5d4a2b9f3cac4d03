// Package daemon runs the autoscalers of one configuration: it wires fleets and
// sources by kind, runs the rounds, carries out what package policy decides,
// keeps the state, reloads, and publishes what it knows.
package daemon
