// Package compose is the fleet of Docker Compose: its targets are the services of the Compose
// projects on one Docker engine, and their instances are containers.
//
// The engine does not know services. A service consists of the containers with its labels; its
// count is their number in any state. hpad adds replicas that Compose accepts as its own: copies
// of a container that Compose made, with the next number ([blueprint]). It removes the containers
// that Compose would remove.
//
// Labels of the replicas make it possible to repair a service after Compose has changed it while
// hpad created them ([Fleet.repair]). The fleet's store contains what the engine does not keep
// ([serviceRecord]).
package compose
