// Package embedded compares the embedded source with real Prometheus servers.
package embedded
