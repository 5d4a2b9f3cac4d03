// Package demo runs "hpad demo": a queue of jobs, a load that rises and falls, workers
// that take jobs from the queue, the configuration that puts an autoscaler over them,
// and the story of what came of it, shown on a terminal.
package demo
