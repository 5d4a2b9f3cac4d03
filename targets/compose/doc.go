// Package compose is the fleet of Docker Compose: its targets are the services of
// the Compose projects on one Docker engine, their instances the containers.
//
// The engine knows no services. A service is its containers, by the labels that
// Compose writes on them; its count is how many there are, whatever their state.
// hpad adds replicas that Compose takes for its own: copies of one that it made,
// with the next number ([blueprint]). It removes those that Compose would.
//
// Labels of the replicas have what it takes to repair a service after Compose has changed it
// while hpad created them ([Fleet.repair]). The fleet's store has the rest that the engine
// does not keep: victims that are being stopped, when containers became ready, which ones
// failed, and what it takes to start again after the last container is gone ([template]).
package compose
