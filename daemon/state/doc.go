// Package state stores everything that must survive a restart: each autoscaler's memory, status
// and pending intention, the last completed round, the small stores of the fleets, and the
// history of decisions.
//
// [Open] opens a state directory, which only one daemon can use at a time. state.db contains the
// records, and history.db contains the history. hpad renames damaged files to names with "damaged"
// and does not use them again.
//
// Both are bbolt databases with a format version. Every value has a format byte and a checksum.
// Before every write, hpad checks that the open files are still at their paths, and recreates
// them if they are not.
//
// A record is written only if something in it changes. Passes that repeat the same recommendation
// are not written. [Store.Load] reconstructs them from [Record.Replay] and the last completed
// round.
package state
