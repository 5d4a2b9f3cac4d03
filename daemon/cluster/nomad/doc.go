// Package nomad stores the state of a cluster's members in Nomad variables. Below PATH/CLUSTER/ are:
//
//	who/members/NAME     a member, with its session
//	who/fleets/FLEET     the owner and its session, the term, the configuration, the number of pages
//	records/FLEET/N/I    page I of N: the records whose key has that hash
//
// Every write compares the ModifyIndex of the variable. A session is one creation of a member's
// variable, and each write of it renews the session. A member that sees the same index for a ttl,
// by its own monotonic clock, removes the variable. Nomad's own locks are not used, because their
// ttl is at least 10 s, and a release can remove the lock of the next holder.
//
// A new owner writes its claim to every page before it loads the pages. Earlier writes that arrive
// later fail then. New pages are written before the fleet's variable names their number. After an
// error each key has its old or its new value.
package nomad
