// Package faults runs hpad against servers that misbehave on request. docs/reliability.md
// lists every fault with its test.
package faults
