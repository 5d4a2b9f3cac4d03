// Package gcetest is a fake server for the part of the Compute Engine API that managed instance
// groups use. Responses are messages of package computepb. The server checks requests and
// responses against the discovery document in the module google.golang.org/api; a deviation fails
// the test.
package gcetest
