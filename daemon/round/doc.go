// Package round runs the autoscalers: it observes targets, decides, writes counts and records the
// results.
//
// A [Scheduler] starts a round for all autoscalers that are due at the same instant. A round reads
// each fleet once and evaluates each distinct query once. A pass is the evaluation of one
// autoscaler. A worker runs it as soon as its own reads have ended or its timeout has expired. The
// worker decides; a write runs in a separate goroutine. Each pass publishes an immutable [Result]
// of its [Autoscaler].
//
// A [Generation] contains the autoscalers and adapters of one configuration. A reload replaces it.
package round
