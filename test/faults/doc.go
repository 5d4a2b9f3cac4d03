// Package faults proves that hpad withstands what goes wrong around it: the real
// program, over servers that misbehave on a script. docs/reliability.md lists every
// fault with its test.
package faults
