// Package nomad stores the state of a cluster's members in Nomad's variables.
//
// Below PATH/CLUSTER/ are:
//
//	who/members/NAME     a member; each change of it renews its session
//	who/fleets/FLEET     the last owner, its session, the number of its term, the
//	                     configuration, and the number of pages
//	records/FLEET/N/I    page I of N pages: the records with such a hash of their key
//
// Nomad changes one variable at a time and compares its ModifyIndex. This package writes
// nothing without a comparison.
//
// # Members
//
// A session is one creation of the member's variable, identified by its CreateIndex. The
// member renews it by writing the variable again. It lasts for the ttl after the last
// successful renewal was sent. A member that sees the same ModifyIndex for a ttl, by its own
// monotonic clock, removes the variable if that still has this index. So no session ends for
// another member before its own member knows that it may have ended, and no ended session
// continues. Clocks are not compared. A member that has just started waits a ttl as well.
//
// Nomad's own locks of variables are not sufficient, as of version 1.11: their ttl is at
// least 10 s, and a lock is held for twice that and its delay; only management tokens see
// whether a lock is held; a lock is acquired without a comparison, and the value before is
// lost; a write by the holder sets the ttl to 15 s; and after the delay of a lock Nomad
// removes the lock that exists then, even if another member acquired it after a release.
//
// # Fleets
//
// An owner is a member's session in the fleet's variable, until that session ends. Whether
// it has ended is read after the variable, from a response that is no older: a session that
// is missing then existed before, and has ended for good.
//
// # Records
//
// The records of a fleet are divided among its pages by the hashes of their keys. When a page
// is full, all records are written into a larger number of pages.
//
//   - A new owner claims every page before it loads: it writes the page again, with its
//     records and a claim of its own. From then on only this owner writes the page, since
//     the index of everybody else is older. A write of an earlier owner that arrives before
//     the claim is loaded; a later one fails. If an owner stops while it claims, the next one
//     claims all pages.
//   - New pages are written before the fleet's variable names their number. If an owner stops
//     in between, the next one uses the pages before, and overwrites the new ones when it
//     needs them. The pages before stay as they are.
//   - A claim changes the fleet's variable first, so that an earlier write of the number of
//     pages that arrives later fails.
//   - A write without a response is sent again. If it had arrived, its index is outdated, and
//     Nomad returns the page with the claim of this term; the change is applied to that.
//   - A missing page was removed by an operator. It is an error, as is a page without a claim
//     of this term or a later one. It is never replaced.
//
// Records of several pages are not written in one step: after an error, and also after a
// state.ErrFenced, each key has its value of before or the new one, and the next owner loads
// that.
//
// A term is fenced at the latest by the claims of the next one. Before that, from the end of
// the session on, this package rejects its writes by the monotonic clock. A write that was
// sent before may still arrive, and the next owner loads it.
package nomad
