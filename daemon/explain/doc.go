// Package explain says in words what hpad knows of an autoscaler: a decision's record in a
// sentence or step by step, what keeps it from its work, its metrics and instances. It
// computes no step of a decision again. The command line and the page use it.
package explain
