// Package graph stores the data points of graphs of an autoscaler: at each pass the count,
// the desired count, the bounds, and the value and the proposal of each metric.
//
// graph.db is a bbolt file. Points are written once a minute, so that a kill loses at most
// the last minute of them. Decisions do not depend on it, and a damaged file is replaced
// by an empty one. Points are at least [Step] apart. All of the last 6 hours are stored, and
// one in [Thin] of the last 7 days. The buckets have blocks of points, in a bucket for each
// hour or for each 6 hours, so that old points are removed at once:
//
//	hours/HOUR       NUMBER NAME -> the points of one minute; NUMBER counts the flushes
//	quarters/QUARTER NAME        -> the points of six hours, one in Thin
//
// A block is JSON, compressed with zstd, which has a checksum. Measured values are rounded
// to five digits.
package graph
