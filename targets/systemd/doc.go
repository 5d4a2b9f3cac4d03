// Package systemd implements fleets of services of one service manager. Each target is a
// template such as worker@.service. hpad starts and stops its instances worker@1.service,
// worker@2.service and so on through D-Bus.
//
// The manager has no replica count, so the fleet stores it as the indexes that should run. It
// distinguishes indexes that hpad started from those that it found running. A started fleet
// restarts the instances that hpad started. A fleet that was not started, as in "hpad check
// --live", changes nothing.
package systemd
