// Package gcetest imitates the part of the Compute Engine API that managed instance
// groups need, over HTTP and driven by the test.
//
// What keeps it honest was not written for it: its responses are messages of
// computepb, the API's own types, and every request it takes and every response it
// gives is checked against the discovery document that comes with the module
// google.golang.org/api: paths, verbs, parameters, properties, types and enums. A
// request or a response that is not in that document fails the test.
package gcetest
