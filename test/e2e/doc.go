// Package e2e drives the hpad program as a user does, with files, signals and
// commands, over real worker processes and a real Prometheus server.
package e2e
