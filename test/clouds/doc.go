// Package clouds runs the same tests with every fake cloud, together with a real Nomad.
package clouds
