// Package systemd is the fleet of services that one service manager runs: each
// target is a template, as worker@.service, whose instances worker@1.service,
// worker@2.service and so on are started and stopped through D-Bus.
//
// The manager keeps no count, so the fleet does, in its store: which indexes are
// wanted, those hpad started apart from those it found running. Wanted units that
// hpad started and that do not run any more are started again, by a fleet that has
// been started itself; one that was not, as that of "hpad check --live", changes
// nothing.
package systemd
