// Package state stores everything that must survive a restart: the memory, status and open
// intention of each autoscaler, the last completed round, the small stores of fleets, and the
// history of decisions.
//
// [Open] opens a directory that one daemon uses at a time. state.db has the records, and
// history.db the history. Files with "damaged" or "replaced" in their names were set aside and
// are not used again.
//
// Both are bbolt databases with a format version. Every value has a format byte and a checksum.
// Every write first checks that the open files are still at their paths, and recreates them
// otherwise.
//
// A record is written only if something in it changes. Passes that repeat the same
// recommendation are not written: [Store.Load] applies them again from [Record.Replay] and the
// last completed round.
package state
