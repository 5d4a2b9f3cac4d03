package nomad

import (
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
)

// knownGroup is what is known of the allocations of a task group, as they were read
// last. It is not modified once others may see it.
type knownGroup struct {
	// stamp is what the job's was before they were read, and stays as long as they do
	// but for what settled and sweeps are for.
	stamp stamp
	// read is when their reading began; since is when the stamp was first seen.
	read, since time.Time
	// contact is how old what was read may be where any server may answer.
	contact time.Duration
	// deployed means that a deployment of the job was active then.
	deployed bool
	// marks name all of them, in no order.
	marks []mark
	// allocs are they, until they are made into members.
	allocs []*allocStub
	// members is what they are made into; nil before.
	members *members
}

// add adds an allocation.
func (k *knownGroup) add(alloc *allocStub) {
	k.allocs = append(k.allocs, alloc)
	k.marks = append(k.marks, alloc.mark())
}

// mark returns the allocation's mark.
func (a *allocStub) mark() mark { return mark{id: a.ID, index: a.ModifyIndex} }

// marksOf returns the marks of allocations, of which texts is what stays.
func (s *slabs) marksOf(allocs []*allocStub, texts []packed) []mark {
	marks := s.marks.take(len(allocs), s)
	for i, alloc := range allocs {
		marks[i] = mark{id: texts[i].id(), index: alloc.ModifyIndex}
	}
	return marks
}

// mark is an allocation and the index of its last change.
type mark struct {
	id    string
	index uint64
}

// members are the allocations of a group as its readings have them.
type members struct {
	each []member
	// tasks are those that any of them has.
	tasks [][]policy.Task
	// listSampled lists those whose use can be read.
	listSampled func() []sampledAlloc
	// status counts those that stay.
	status int32
	// failing is a notice of those that fail; nil for none.
	failing *policy.Notice
	// settled means that nothing will happen to them of which the job's stamp does not
	// tell: each runs, is ready, and its health is known or no longer looked for.
	settled bool
}

// book is what is known of the groups of a scope between readings. It is safe for
// concurrent use.
type book struct {
	at     scope
	mu     sync.Mutex
	groups map[groupKey]*entry
	// index is that of the last list of jobs, listed when that was through.
	index  uint64
	listed time.Time
	// present is about how many allocations there are.
	present int
	// gathering is a reading of all allocations that was cut off; nil for none.
	gathering *gathering
	sweep     sweep
	// forgotten is when groups that nobody uses were forgotten last.
	forgotten time.Time
}

// entry is a group in a book, and when it was used last. Its knownGroup is nil where nothing
// is known of it, and dropped means that it is no longer in the book.
type entry struct {
	*knownGroup
	used    time.Time
	dropped bool
}

// newBook returns an empty book of a scope.
func newBook(at scope) *book { return &book{at: at, groups: map[groupKey]*entry{}} }

// heed forgets everything where the index of a list of jobs, which began at some time,
// went back: the cluster was restored from a backup, or is another one. Present is about
// how many allocations there are.
func (b *book) heed(index uint64, present int, began, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.present = present
	if began.Before(b.listed) {
		b.index = max(b.index, index) // of calls side by side, the first may end last
		return
	}
	if index < b.index {
		for _, entry := range b.groups {
			entry.knownGroup = nil
		}
		b.gathering = nil
	}
	b.index, b.listed = index, now
}

// entryLocked returns the entry of a group.
func (b *book) entryLocked(key groupKey) *entry {
	found := b.groups[key]
	if found == nil {
		found = new(entry)
		b.groups[key] = found
	}
	return found
}

// lookUp fills in what is known of the groups of a roster, and of which the memory of their
// allocations is to be kept up.
func (b *book) lookUp(r *roster, groups []groupState, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range r.groups {
		found := r.groups[i].entry
		if found.dropped {
			found = b.entryLocked(r.key(i))
			r.groups[i].entry = found
		}
		if now.Sub(found.used) > forgetAfter/2 {
			groups[i].remember = true
			found.used = now
		}
		groups[i].known = found.knownGroup
	}
}

// enter keeps what is known of a group, unless something newer is.
func (b *book) enter(key groupKey, known *knownGroup, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.entryLocked(key)
	if before := found.knownGroup; before != nil {
		if before.read.After(known.read) {
			return
		}
		if before.stamp == known.stamp {
			known.since = before.since
		}
	} else {
		found.used = now
	}
	found.knownGroup = known
	if now.Sub(b.forgotten) < forgetAfter {
		return
	}
	b.forgotten = now
	for key, entry := range b.groups {
		if now.Sub(entry.used) > forgetAfter {
			entry.knownGroup, entry.dropped = nil, true
			delete(b.groups, key)
		}
	}
}

// takeGathering returns the reading that was cut off, for the caller to go on with; nil
// for none.
func (b *book) takeGathering() *gathering {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.gathering
	b.gathering = nil
	return taken
}

// keepGathering keeps a reading that was cut off.
func (b *book) keepGathering(g *gathering) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gathering = g
}

// books are those of all scopes. They are safe for concurrent use.
type books struct {
	mu     sync.Mutex
	scopes map[scope]*book
}

// of returns the book of a scope.
func (b *books) of(at scope) *book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.scopes == nil {
		b.scopes = map[scope]*book{}
	}
	if b.scopes[at] == nil {
		b.scopes[at] = newBook(at)
	}
	return b.scopes[at]
}
