package targets

import "sync"

// Usual keeps what is made of the refs of a snapshot for the next one of the same: most are
// of one list, that of all targets, over and over. It is safe for concurrent use; the zero
// value is ready to use.
type Usual[T any] struct {
	mu sync.Mutex
	// refs are those of made, and other is the longest list that came since.
	refs, other []Ref
	made        T
}

// Of returns what make makes of refs, which are kept and must not be modified. The list
// that was there before gives way to one that is as long, and to a shorter one, as there is
// after a reload, that comes for the second time while it does not come itself.
func (u *Usual[T]) Of(refs []Ref, make func() T) T {
	u.mu.Lock()
	defer u.mu.Unlock()
	if sameRefs(refs, u.refs) {
		u.other = nil
		return u.made
	}
	made := make()
	switch {
	case len(refs) >= len(u.refs) || sameRefs(refs, u.other):
		u.refs, u.other, u.made = refs, nil, made
	case len(refs) > len(u.other):
		u.other = refs
	}
	return made
}

// Kept returns what was made of the usual list; zero before the first.
func (u *Usual[T]) Kept() T {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.made
}

// sameRefs reports whether two lists are one and the same.
func sameRefs(a, b []Ref) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }
