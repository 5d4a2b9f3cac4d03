// Package adapters manages the fleets and sources of a configuration: it builds and starts them,
// replaces them at a reload, and closes those that are no longer in use.
package adapters
