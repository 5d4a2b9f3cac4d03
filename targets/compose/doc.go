// Package compose is the fleet of Docker Compose: its targets are the services of
// the Compose projects on one Docker engine, their instances the containers.
//
// The engine knows no services. A service is its containers, by the labels that
// Compose writes on them; its count is how many there are, whatever their state.
// hpad adds replicas that Compose takes for its own: copies of one that it made,
// with the next number ([blueprint]). It removes those that Compose would.
//
// What the engine does not keep is in the fleet's store: victims that are being
// stopped, starts under way, which replicas hpad made lately ([copied]), when
// containers became ready, and what it takes to start again after the last container
// is gone ([template]).
package compose
