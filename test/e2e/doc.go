// Package e2e runs the hpad binary with configuration files, signals and commands, real worker
// processes and a real Prometheus server.
package e2e
