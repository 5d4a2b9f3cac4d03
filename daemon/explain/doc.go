// Package explain writes the record of a decision for a person. It prints what
// was recorded and computes no step again.
package explain
