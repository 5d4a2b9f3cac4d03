// Package explain says in sentences what a decision's record has. It computes no step
// again.
package explain
