// Package systemd tests systemd fleets with real service managers, which package systemdtest
// starts.
package systemd
