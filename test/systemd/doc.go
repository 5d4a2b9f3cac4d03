// Package systemd tests systemd fleets against real service managers, which package
// systemdtest starts.
package systemd
