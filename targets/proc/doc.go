// Package proc reads what kinds of fleets of local processes need to know of them and
// of their machine.
//
// It is no kind of its own.
package proc
