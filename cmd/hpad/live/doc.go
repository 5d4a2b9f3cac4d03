// Package live tries a configuration against the fleets and sources it names,
// without starting, storing or changing anything: what "hpad check --live" does.
package live
