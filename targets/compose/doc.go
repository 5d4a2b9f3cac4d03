// Package compose implements fleets of Docker Compose services. The targets are the services of
// the Compose projects on one Docker engine, and their instances are containers.
//
// The engine has no concept of services. A service consists of the containers with its labels;
// its replica count is their number, regardless of their state. hpad adds replicas that Compose
// accepts as its own: copies of a container that Compose created, with the next number
// ([blueprint]). It removes the same containers that Compose would remove.
//
// If Compose changes a service while hpad creates replicas of it, labels on the replicas allow
// hpad to repair the service ([Fleet.repair]). The fleet's store contains the data that the
// engine does not store ([serviceRecord]).
package compose
