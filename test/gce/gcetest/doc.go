// Package gcetest is a fake server of the part of the Compute Engine API that managed instance
// groups need. Its responses are messages of computepb, and its methods are those of the discovery
// document in the module google.golang.org/api.
package gcetest
