// Package trouble follows what is wrong with something, so that a person is told
// once of each cause, and not of every time it is found again.
package trouble
