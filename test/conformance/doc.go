// Package conformance compares hpad with the HorizontalPodAutoscaler controller of Kubernetes
// v1.37.1, and of v1.38 as far as its beta is available. Its tests run the whole upstream controller (see the nested module in directory
// upstream) and the whole hpad daemon against the same simulated fleets, each with its own virtual
// clock. They compare every evaluation: counts, writes, status, conditions with their times,
// metric values, events, recommendations and scale events.
//
// Package sim contains the simulation, the scenario generator and the comparison. Each controller
// has its own copy of the fleet, which follows the counts that this controller writes. All random
// numbers depend only on the seed, the instance and the time, so that two controllers that make
// the same decisions see the same fleet.
package conformance
