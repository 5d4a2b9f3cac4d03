// Package prometheus evaluates queries with a Prometheus server, or anything else
// that speaks its HTTP API.
//
// A [Source] returns the values of the server, NaN included, and fills in nothing.
// Whatever is not a vector or scalar of plain numbers is an error.
package prometheus
