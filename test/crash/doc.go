// Package crash kills hpad while it removes instances, and checks the behavior of the next
// process. It uses fake clouds and a real Nomad.
package crash
