// Package graph keeps what a drawing of an autoscaler shows: at each pass the count, the
// count that it wants, the bounds, and what each metric measures and proposes.
//
// graph.db is a bbolt file. Points are written once a minute, so that a kill loses at most
// the last minute of them; nothing that hpad decides depends on it, and a file that is
// damaged is replaced by an empty one. An autoscaler takes at most 110 kB of it, whatever
// its period: its points are at least [Step] apart, of the last 24 hours all are kept, and
// of 7 days one in [Thin]. The buckets hold blocks of points, each in a bucket of its own
// by the hour or the half day, so that what is too old is dropped at once:
//
//	recent/HOUR    NUMBER NAME -> the points of one minute, minutes counted
//	hours/HOUR     NAME        -> the points of one hour
//	halves/HALF    NAME        -> the thinned points of half a day
//
// A block is a checksum and runs of points with the same metrics. Those of a minute are
// one after the other; joined, each number is a column as Prometheus stores samples: the
// difference of the differences of times, and values by the bits in which they differ
// from those before. Measured values are rounded to one in 8,192 parts.
package graph
