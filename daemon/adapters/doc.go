// Package adapters keeps the fleets and sources of a configuration in use: it builds
// them, replaces them at a reload, and closes those that nothing uses any more.
package adapters
