// Package targettest holds the contract suite that every kind of fleet passes
// ([Run]), a reference fleet in memory ([Memory]), a store in memory ([Store]),
// and what the benchmarks of all kinds measure alike ([Rounds], [Replay]).
//
// Memory and Store do no I/O and start no goroutines, so that they work inside
// a testing/synctest bubble.
package targettest
