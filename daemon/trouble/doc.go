// Package trouble follows what is wrong with something, so that each cause is reported
// once, and not every time it is found again.
package trouble
