// Package sampling has what the samplers of all kinds of fleets share: the [Clock] by
// which they read the use of resources, and the [Members] of those that read it one
// by one.
package sampling
