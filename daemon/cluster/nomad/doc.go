// Package nomad stores the state of a cluster's members in Nomad variables. Below PATH/CLUSTER/
// are:
//
//	who/members/NAME     a member, with its session
//	who/fleets/FLEET     the owner and its session, the term, the configuration, the number of pages
//	records/FLEET/N/I    page I of N: the records whose key has that hash
//	key                  the cluster's random secret
//
// Every write compares the ModifyIndex of the variable. A session starts when a member's variable
// is created, and each write to the variable renews the session. If the index of a member's
// variable has not changed for its ttl, by another member's monotonic clock, that member removes
// the variable. hpad does not use Nomad's own locks, because their ttl is at least 10 s, and a
// release can remove the lock of the next holder.
//
// A new owner writes its claim to every page before it loads the pages. As a result, writes of an
// earlier owner that arrive later fail. If a fleet needs more pages, they are written before the
// fleet's variable contains their number. After an error, each key has either its old or its new
// value.
package nomad
