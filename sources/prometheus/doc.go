// Package prometheus asks a Prometheus server, or anything else that speaks its
// HTTP API, for the value of a query at an instant.
//
// A [Source] answers what the server said, NaN included, and fills in nothing.
// Whatever is not a vector or scalar of plain numbers is an error.
package prometheus
