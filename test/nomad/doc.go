// Package nomad tests fleets of kind "nomad", and the daemon with these fleets, on real Nomad
// agents, which test/install/nomad.sh builds.
package nomad
