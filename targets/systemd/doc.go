// Package systemd is the fleet of services of one service manager: each target is a template such
// as worker@.service. hpad starts and stops its instances worker@1.service, worker@2.service and
// so on through D-Bus.
//
// The manager has no count, so the fleet stores it: the indexes that should run, those that hpad
// started apart from those that it found running. A started fleet restarts instances that hpad
// had started. A fleet that was not started, as in "hpad check --live", changes nothing.
package systemd
