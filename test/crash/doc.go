// Package crash kills hpad while it removes instances, and checks what the next process does.
// It uses simulated clouds and a real Nomad.
package crash
