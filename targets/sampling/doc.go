// Package sampling holds what the samplers of all kinds of fleets have in
// common: the [Clock] by which they ask their platform for the use of resources,
// and the [Members] that those keep who ask for them one by one.
//
// It is no kind of its own.
package sampling
