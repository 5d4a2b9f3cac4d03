// Package targets holds what every kind of fleet speaks: how a target is named
// ([Ref]), what reading one yields ([Reading]), the resource use of its
// instances ([Samples]), the classes of errors that a fleet returns, and the
// small store each fleet keeps across restarts ([Store]).
//
// Each kind of fleet lives in a package below this one and passes the contract
// suite in targets/targettest.
package targets
