// Package embedded tests the embedded source together with the queries that explain a missing
// result.
package embedded
