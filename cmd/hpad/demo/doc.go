// Package demo runs "hpad demo": a queue of jobs, a load that rises and falls, worker
// processes that take jobs from the queue, and a daemon with one autoscaler for the workers.
package demo
