// Package targettest runs the contract suite that every fleet kind must pass ([Run], package contract), an
// in-memory reference fleet ([Memory]), an in-memory store ([Store]), and shared benchmark
// measurements ([Rounds]).
//
// Memory and Store do no I/O and start no goroutines, so that they work inside
// a testing/synctest bubble.
package targettest
