// Package crash kills the hpad program in the middle of what it does to machines,
// and looks at what the next one makes of it: over imitated clouds and a real Nomad.
package crash
