// Package azurevmss is the fleet of an Azure subscription: each target is a
// virtual machine scale set, Uniform or Flexible, its instances are the machines.
//
// A round lists the scale sets once, and the machines of the sets that changed, are
// not settled or were not looked at for longest, as many as the fleet's own limit
// of calls allows; a set that is settled and unchanged keeps the machines that were
// listed last. The version of a reading is the set's capacity and ETag, and every
// write names the ETag, so that nobody's change is overwritten.
//
// Cpu and memory of machines are not known to the platform's API: their metrics
// come from a source.
package azurevmss
