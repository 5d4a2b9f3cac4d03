// Package systemd holds the integration tests of systemd fleets: against real
// service managers, which package systemdtest runs.
package systemd
