// Package nomad tests fleets of kind "nomad", and the daemon over them, against
// real Nomad agents, which test/install/nomad.sh builds.
package nomad
