// Package crash kills hpad while it removes machines, and checks the next run, with simulated
// clouds and a real Nomad.
package crash
