// Package clouds tests what hpad does alike on every imitated cloud together with a
// real engine.
package clouds
