package nomad

import (
	"reflect"
	"strings"
)

// slabs is the memory for what stays of groups where most are read at once, as at the start.
// In pieces of its own each of that would be among the much that goes with the answer it
// was read from, in a page that no collection gives back: half as much again. A slab goes
// with the last of the groups that are in it, and what others of them held is of no use
// until then. So what is read of fewer groups is no part of any: these are the ones that
// change again and again.
type slabs struct {
	// left is how many groups there are still to be made, and shared means that they share
	// slabs.
	left    int
	shared  bool
	groups  slab[knownGroup]
	members slab[members]
	each    slab[member]
	marks   slab[mark]
	texts   strings.Builder
}

const (
	// manyGroups is how many groups share slabs, at least.
	manyGroups = 500
	// slabSize is how many bytes a slab has at most, unless one group needs more: a page of
	// Go's allocator without what it writes in front of pointers.
	slabSize = 8<<10 - 8
)

// newSlabs returns slabs for so many groups, of all.
func newSlabs(groups, all int) slabs {
	return slabs{left: groups, shared: groups >= manyGroups && 2*groups > all}
}

// sizeOf returns how large a slab is to be where a group needs n, at most.
func (s *slabs) sizeOf(n, most int) int {
	if !s.shared {
		return n
	}
	return max(n, min(n*max(s.left, 1), most))
}

// text returns a text in a slab.
func (s *slabs) text(text []byte) string {
	if s.texts.Cap()-s.texts.Len() < len(text) {
		s.texts.Reset()
		s.texts.Grow(s.sizeOf(len(text), slabSize))
	}
	from := s.texts.Len()
	s.texts.Write(text)
	return s.texts.String()[from:]
}

// slab is memory for values of a type, of which the rest is free.
type slab[T any] struct{ free []T }

// take returns n zero values in a slab.
func (s *slab[T]) take(n int, of *slabs) []T {
	if len(s.free) < n {
		s.free = make([]T, of.sizeOf(n, slabSize/int(reflect.TypeFor[T]().Size())))
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}
