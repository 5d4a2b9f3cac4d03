// Package contract contains the promises that every fleet must keep, as cases that tests and commands
// can run. Tests use package targettest. Package contract does not import testing, so that hpad does not
// contain it.
package contract
