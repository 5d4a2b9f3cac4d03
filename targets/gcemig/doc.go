// Package gcemig is the fleet of the managed instance groups of a Google Cloud
// project, zonal and regional ones: each target is a group, its instances are the
// group's virtual machines.
//
// A round reads one aggregated list for each 500 groups of the project, whatever
// the number of targets. The instances of a group are listed where that list says
// that something is going on in it; those of a stable group are known from before,
// and listed again from time to time, more often where a health check watches them.
// Start times, addresses and labels are looked up once for each machine.
//
// Compute Engine does not compare when it resizes. The version of a reading is the
// group's id and size, which are read again just before a write; a request id makes
// a repeated write the same one.
//
// No member of a managed instance group is ever protected: Compute Engine has no
// such thing for them.
package gcemig
