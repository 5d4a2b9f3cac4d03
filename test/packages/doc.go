// Package packages builds hpad's packages and its container image with the
// repository's own scripts, and looks at them as those do who install them: their
// contents, what lintian and systemd-analyze say, and what they do on a machine
// with systemd and in a Docker engine.
package packages
