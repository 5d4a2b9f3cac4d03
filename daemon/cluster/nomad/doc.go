// Package nomad has the members of a cluster share what they know through Nomad's
// variables.
//
// Below PATH/CLUSTER/ are:
//
//	who/members/NAME       a member, and by each change of it that it is still there
//	who/fleets/FLEET       the last owner, its session and the number of its term, and the
//	                       configuration
//	records/FLEET/pBITS    a page of the fleet's state: the keys whose hash begins with BITS
//
// Nomad changes one variable at a time, and compares its ModifyIndex. All that follows is
// made of that; nothing is ever written that is not compared.
//
// # Members
//
// A session is one creation of the member's variable, known by its CreateIndex. It is
// renewed by writing the variable again, and lasts for the ttl from when the last renewal
// that succeeded was sent. Who sees one ModifyIndex for a ttl, by its own monotonic clock,
// removes the variable, if that still has this index: so no session is over for anybody
// before its member knows that it may be, and none that is over comes back. No clocks are
// compared. A member that has just started has seen nothing for a ttl, and waits as long.
//
// Nomad's own locks of variables would not do, as of version 1.11. Their ttl is 10 s at
// least, and the lock is kept for twice that and its delay; whether one is held is shown to
// management tokens alone; one is acquired without a comparison, and the value of before is
// lost; a write of who holds it sets the ttl to 15 s; and once a lock's delay is over
// whichever lock there is by then is removed, also another member's that acquired it after
// a release.
//
// # Fleets
//
// An owner is a member's session in the fleet's variable, for as long as that session is
// not over. Whether it is, is asked after the variable was read, of an answer that is no
// older: a session that is not there then was there before, and is over for good.
//
// # Records
//
// Pages form a tree by the bits of the keys' hashes: pages that have records are its
// leaves, and one that became too large has records no more but two pages below it. None
// is ever removed. So:
//
//   - A new owner claims every leaf before it loads: it writes it again, with what it has
//     and a claim of its own. From then on it is the only one that writes the page, since
//     everybody else's index is an older one. A write of an earlier owner that arrives
//     before the claim is loaded, one that arrives after it fails. Where an owner ended in
//     the middle of claiming, some pages have its claim and others that of before; the next
//     one claims all of them.
//   - A page is divided by creating both pages below it with its records, and then writing
//     that it has none. As long as it has records, what there is below is of no meaning, and
//     replaced when it is divided; once it has none that never changes. What an earlier
//     owner left half divided, or creates late, is either below a page that has its records,
//     or it is there already and cannot be created again.
//   - A write whose answer is lost is sent again. If it had arrived, its index is over, and
//     Nomad returns the page, which has the claim of this term: what is there is taken over,
//     and what is missing in it is written.
//   - A page that ought to be there and is not was removed by a person. It is an error, as is
//     one without a claim of this term or a later one; nothing is made up for it.
//
// Records that belong to several pages are not written at once: after an error, and also
// after a state.ErrFenced, each key has its value of before or the new one. The next owner
// loads what there is.
//
// A term is fenced at the latest by the claims of the next one. Before that, from the end
// of the session on, its writes are refused by this package, by the monotonic clock; one
// that was on its way then may still be carried out, and the next owner loads it.
package nomad
