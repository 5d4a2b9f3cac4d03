// Package systemd tests systemd fleets with real service managers from package systemdtest.
package systemd
