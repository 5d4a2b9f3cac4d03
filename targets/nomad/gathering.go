package nomad

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

// gathering is a reading of the allocations of many groups, which goes through all that
// the scope has, in parts. One that was cut off goes on in the next reading.
type gathering struct {
	// began is when it began, contact the oldest that any of its parts may be.
	began   time.Time
	contact time.Duration
	// groups are those that it is for, as they were then, with what was found so far.
	groups map[groupKey]*knownGroup
	// parts are the prefixes of ids that are left.
	parts map[string]bool
	// few means that most of what is read is of other groups.
	few bool
}

// wholeList is how many allocations are read in one list; more are read in parts, by
// the first two digits of their ids.
const wholeList = 4000

// parts returns the prefixes by which a scope's allocations are read where it has about
// so many.
func parts(present, most int) []string {
	if present <= most {
		return []string{""}
	}
	all := make([]string, 256)
	for n := range all {
		all[n] = fmt.Sprintf("%02x", n)
	}
	return all
}

// newGathering begins to gather groups, of so many in the scope, as they are now.
func newGathering(groups map[groupKey]*knownGroup, all, present int, now time.Time) *gathering {
	g := &gathering{began: now, groups: groups, parts: map[string]bool{}, few: 2*len(groups) < all}
	for _, part := range parts(present, wholeList) {
		g.parts[part] = true
	}
	return g
}

// read reads what is left, a few parts at a time. What was read before an error is
// kept.
func (g *gathering) read(ctx context.Context, s *session, at scope) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.config.fetching())
	left := make([]string, 0, len(g.parts))
	for part := range g.parts {
		left = append(left, part)
	}
	for _, part := range left {
		group.Go(func() error {
			var found []*allocStub
			var wanted func(*groupReader) bool
			if g.few {
				wanted = func(of *groupReader) bool {
					return g.groups[groupKey{job: string(of.job), group: string(of.group)}] != nil
				}
			}
			headers, err := s.readAllocs(ctx, at, part, presentAllocs, wanted, func(alloc *allocStub) {
				if g.groups[alloc.key()] != nil {
					found = append(found, alloc)
				}
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, alloc := range found {
				g.groups[alloc.key()].add(alloc)
			}
			g.contact = max(g.contact, headers.contact)
			delete(g.parts, part)
			return nil
		})
	}
	return group.Wait()
}

// readAllocs reads the allocations of a filter whose ids begin with a prefix, which may
// be empty, with all that is needed of them. Those of groups that are not wanted are
// not decoded; wanted is nil where all are.
func (s *session) readAllocs(ctx context.Context, at scope, prefix, filter string, wanted func(of *groupReader) bool, take func(*allocStub)) (reply, error) {
	params := map[string]string{"resources": "true"}
	if prefix != "" {
		params["prefix"] = prefix
	}
	read := func(alloc *allocStub) {
		if !alloc.terminal() || alloc.failed() {
			take(alloc)
		}
	}
	if wanted == nil {
		return each(ctx, s, at, "/v1/allocations", params, filter, read)
	}
	of := new(groupReader)
	return s.stream(ctx, at, "/v1/allocations", params, filter, func(d *jsontext.Decoder) error {
		text, err := d.ReadValue()
		if err == nil {
			err = of.read(text)
		}
		if err != nil || !wanted(of) {
			return err
		}
		alloc := new(allocStub)
		if err := json.Unmarshal(text, alloc, lenientJSON); err != nil {
			return err
		}
		read(alloc)
		return nil
	})
}

// readJobAllocs reads the allocations of one job, with all that is needed of them: each
// list of a job's leaves out what they reserve, which never changes and is read by their
// ids.
func (s *session) readJobAllocs(ctx context.Context, at scope, job string, take func(*allocStub)) (reply, error) {
	var allocs []*allocStub
	headers, err := each(ctx, s, at, "/v1/job/"+url.PathEscape(job)+"/allocations", map[string]string{"all": "true"}, "", func(alloc *allocStub) {
		if !alloc.terminal() || alloc.failed() {
			allocs = append(allocs, alloc)
		}
	})
	if err != nil {
		return headers, err
	}
	for _, alloc := range allocs {
		there := false
		of, err := each(ctx, s, at, "/v1/allocations", map[string]string{"resources": "true", "prefix": alloc.ID}, "", func(whole *allocStub) {
			alloc.AllocatedResources, there = whole.AllocatedResources, true
		})
		switch {
		case err != nil:
			return headers, err
		case !there:
			return headers, fmt.Errorf("%w: allocation %s of job %q is gone since it was listed", targets.ErrTransient, shortID(alloc.ID), job)
		}
		headers.contact = max(headers.contact, of.contact)
		take(alloc)
	}
	return headers, nil
}

// groupReader reads which group allocations are of, one after the other into the same
// memory, which is the least that tells whether the rest is wanted.
type groupReader struct {
	decoder    jsontext.Decoder
	job, group []byte
}

// errRead ends the reading of an object of which enough is read.
var errRead = errors.New("enough is read")

// read reads one allocation.
func (r *groupReader) read(text jsontext.Value) error {
	r.job, r.group = r.job[:0], r.group[:0]
	r.decoder.Reset(bytes.NewBuffer(text), lenient...)
	err := eachMember(&r.decoder, func(name []byte) (err error) {
		switch string(name) {
		case "JobID":
			r.job, err = appendText(r.job, &r.decoder)
		case "TaskGroup":
			r.group, err = appendText(r.group, &r.decoder)
		default:
			err = r.decoder.SkipValue()
		}
		if err == nil && len(r.job) > 0 && len(r.group) > 0 {
			err = errRead
		}
		return err
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return err
}
