package nomad

import (
	"slices"
	"sync"
	"time"
)

// forgetAfter is the time after which unused jobs are deleted from the cache.
const forgetAfter = time.Hour

// cache stores jobs and their allocations between readings. The zero value is empty. It is safe
// for concurrent use.
type cache struct {
	mu      sync.Mutex
	jobs    map[jobKey]*cachedJob
	scopes  map[scope]*cachedScope
	cleaned time.Time
}

type cachedJob struct {
	used time.Time
	// spec is the job's specification, or nil until it has been read.
	spec *specification
	// finished is the number of finished allocations when the job had the indexes in counted.
	finished int
	counted  jobIndexes
	sets     []*allocSet
}

type cachedScope struct {
	// index is Nomad's index in the last job list, and listed is the time when that call ended.
	index  uint64
	listed time.Time
	// listing is the progress of an interrupted call that lists all allocations; nil if no call was
	// interrupted.
	listing *listing
}

func (c *cache) jobLocked(key jobKey) *cachedJob {
	job := c.jobs[key]
	if job == nil {
		if c.jobs == nil {
			c.jobs = map[jobKey]*cachedJob{}
		}
		job = new(cachedJob)
		c.jobs[key] = job
	}
	job.used = time.Now()
	return job
}

func (c *cache) scopeLocked(at scope) *cachedScope {
	s := c.scopes[at]
	if s == nil {
		if c.scopes == nil {
			c.scopes = map[scope]*cachedScope{}
		}
		s = new(cachedScope)
		c.scopes[at] = s
	}
	return s
}

func (c *cache) clean(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.cleaned) < forgetAfter {
		return
	}
	c.cleaned = now
	for key, job := range c.jobs {
		if now.Sub(job.used) > forgetAfter {
			delete(c.jobs, key)
		}
	}
}

// spec returns the cached specification of a job at the given index, or nil.
func (c *cache) spec(key jobKey, index uint64) *specification {
	c.mu.Lock()
	defer c.mu.Unlock()
	if job := c.jobs[key]; job != nil && job.spec != nil && job.spec.index == index {
		job.used = time.Now()
		return job.spec
	}
	return nil
}

// parameterized reports whether the cached specification of a job is parameterized.
func (c *cache) parameterized(key jobKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobs[key]
	return job != nil && job.spec != nil && job.spec.parameterized
}

// putSpec stores a specification unless the cache contains a newer version.
func (c *cache) putSpec(key jobKey, spec *specification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if job := c.jobLocked(key); job.spec == nil || job.spec.index <= spec.index || job.spec.createIndex != spec.createIndex {
		job.spec = spec
	}
}

// finished returns the number of finished allocations of a job. It calls count only if the job's
// indexes have changed since the last count.
func (c *cache) finished(key jobKey, at jobIndexes, count func() (int, error)) (int, error) {
	c.mu.Lock()
	job := c.jobLocked(key)
	n, counted := job.finished, job.counted == at
	c.mu.Unlock()
	if counted {
		return n, nil
	}
	n, err := count()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		job.finished, job.counted = n, at
	}
	return n, err
}

// fill sets the last allocations of each target from the cache, and marks the jobs of the reading as
// used.
func (c *cache) fill(r *scopeReading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, job := range r.jobs {
		cached := c.jobLocked(jobKey{scope: r.at, id: id})
		for _, t := range job.targets {
			if i := cached.index(t.groupKey()); i >= 0 {
				t.set, t.last = cached.sets[i], cached.sets[i]
			}
		}
	}
}

// putSet stores the allocations of a group unless the cache contains newer allocations.
func (c *cache) putSet(set *allocSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobLocked(jobKey{scope: set.at, id: set.key.job})
	switch i := job.index(set.key); {
	case i < 0:
		job.sets = append(job.sets, set)
	case !job.sets[i].read.After(set.read):
		job.sets[i] = set
	}
}

// index returns the index of the set of a group, or -1.
func (j *cachedJob) index(key groupKey) int {
	return slices.IndexFunc(j.sets, func(set *allocSet) bool { return set.key == key })
}

// observe compares the index of a job list with the index of the previous list. If the index has
// decreased, the cluster was restored from a backup or replaced, so observe drops the cached
// allocations of the scope.
func (c *cache) observe(at scope, index uint64, began, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.scopeLocked(at)
	if began.Before(s.listed) {
		s.index = max(s.index, index) // concurrent calls may end in any order
		return
	}
	if index < s.index {
		s.listing = nil
		for key, job := range c.jobs {
			if key.scope == at {
				job.sets = nil
			}
		}
	}
	s.index, s.listed = index, now
}

// takeListing removes and returns the interrupted listing of a scope, or nil.
func (c *cache) takeListing(at scope) *listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.scopeLocked(at)
	taken := s.listing
	s.listing = nil
	return taken
}

func (c *cache) putListing(at scope, l *listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scopeLocked(at).listing = l
}
