// Package packages builds hpad's packages and image with the repository's scripts. It checks their
// contents with lintian and systemd-analyze, installs them on a machine with systemd, and runs the
// image in Docker.
package packages
