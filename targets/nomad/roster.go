package nomad

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/hpad/hpad/targets"
)

// roster is which jobs and groups of a scope are in use. Nearly all readings are of the
// same ones, and so it is made once for them, with what each reading would have to look up
// again: all are numbered.
type roster struct {
	at     scope
	book   *book
	jobs   []rosterJob
	groups []rosterGroup
	// targets are those that are read, by their groups.
	targets []rosterTarget
	// numbers are those of jobs by their ids.
	numbers map[string]int
	// listed is the list of jobs as it was read last; nil before the first.
	listed atomic.Pointer[listing]
}

// rosterJob is a job, and which groups it has: those from first to before end.
type rosterJob struct {
	id         string
	first, end int
}

// rosterGroup is a group of a job. The book's lock guards its entry.
type rosterGroup struct {
	name  string
	job   int
	entry *entry
}

type rosterTarget struct {
	ref targets.Ref
	Target
	group int
}

// newRosters returns those of targets, one for each of their scopes.
func newRosters(wanted map[targets.Ref]Target, books *books) []*roster {
	all := make([]rosterTarget, 0, len(wanted))
	for ref, t := range wanted {
		all = append(all, rosterTarget{ref: ref, Target: t})
	}
	slices.SortFunc(all, func(a, b rosterTarget) int {
		return cmp.Or(
			cmp.Compare(a.Region, b.Region), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Job, b.Job),
			cmp.Compare(a.Group, b.Group), cmp.Compare(a.ref.Name, b.ref.Name),
		)
	})
	var rosters []*roster
	for len(all) > 0 {
		at := all[0].scope()
		n := slices.IndexFunc(all, func(t rosterTarget) bool { return t.scope() != at })
		if n < 0 {
			n = len(all)
		}
		rosters = append(rosters, newRoster(at, books.of(at), all[:n:n]))
		all = all[n:]
	}
	return rosters
}

// newRoster returns the roster of targets of one scope, which are in order.
func newRoster(at scope, book *book, ordered []rosterTarget) *roster {
	r := &roster{at: at, book: book, targets: ordered, numbers: map[string]int{}}
	book.mu.Lock()
	defer book.mu.Unlock()
	for i := range ordered {
		t := &ordered[i]
		job, last := len(r.jobs)-1, len(r.groups)-1
		if job < 0 || r.jobs[job].id != t.Job {
			job++
			r.jobs = append(r.jobs, rosterJob{id: t.Job, first: last + 1})
			r.numbers[t.Job] = job
		}
		if last < r.jobs[job].first || r.groups[last].name != t.Group {
			last++
			r.groups = append(r.groups, rosterGroup{name: t.Group, job: job, entry: book.entryLocked(t.groupKey())})
			r.jobs[job].end = last + 1
		}
		t.group = last
	}
	return r
}

// key names a group.
func (r *roster) key(group int) groupKey {
	return groupKey{job: r.jobs[r.groups[group].job].id, group: r.groups[group].name}
}

// find returns the number of a group; false where it is not in use.
func (r *roster) find(key groupKey) (group int, found bool) {
	job, found := r.numbers[key.job]
	if !found {
		return 0, false
	}
	for group := r.jobs[job].first; group < r.jobs[job].end; group++ {
		if r.groups[group].name == key.group {
			return group, true
		}
	}
	return 0, false
}
