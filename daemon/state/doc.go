// Package state keeps what must survive a restart: each autoscaler's memory,
// status and open intention, the last completed round, the fleets' own small
// stores, and the history of decisions.
//
// [Open] keeps it in one directory that one daemon holds at a time:
//
//	lock          who holds the directory (process id, host, time)
//	state.db      bbolt: records, last completed round, the fleets' stores
//	history.db    bbolt: the history, oldest entries going first
//	*.damaged-*   a file that was found damaged, set aside for a person to see
//	*.replaced-*  a file that stood where one of an open store belongs
//
// Both databases carry a format version, and every value in them its own format
// byte and a checksum. In state.db the bucket "meta" holds the format, the
// last completed round, each [Loss] and each pause, "autoscalers" a [Record] by name, and
// "fleets" a bucket for each fleet. In history.db the bucket "entries" holds an
// [Entry] by time and name, "names" finds them by name, and "counts" has what
// removed ones had of counts. An entry has the inputs of its decision, so that
// [Store.Verify] can make that again.
//
// Writes to files that were removed succeed, and are lost. So each write looks
// first whether the files are still those at their paths, and where they are not
// writes them anew from the open ones.
//
// A record is written when something in it changes. A pass that recommends what
// the pass before it did is not: [Record.Replay] and the last completed round
// say what such passes did to the recommendation list, and Load does it again.
package state
