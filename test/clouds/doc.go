// Package clouds tests the behavior that hpad has in common on all fake clouds, together with a
// real Nomad.
package clouds
