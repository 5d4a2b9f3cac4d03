// Package sampling holds what the samplers of all kinds of fleets have in
// common: the [Clock] by which they ask their platform for the use of resources.
//
// It is no kind of its own.
package sampling
