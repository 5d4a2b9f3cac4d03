package nomad

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/cluster"
)

// memberRecord is the value of who/members/NAME.
type memberRecord struct {
	cluster.Member
	TTL time.Duration `json:"ttl"`
	// Nonce identifies the Join call that created the record.
	Nonce string `json:"nonce"`
}

// fleetRecord is the value of who/fleets/FLEET.
type fleetRecord struct {
	Name string `json:"name"`
	// Owner and Session are empty after a release.
	Owner   string `json:"owner,omitempty"`
	Session uint64 `json:"session,omitempty"`
	// Last names the current or previous owner. Term is 0 if the fleet never had an owner.
	Last          string `json:"last,omitempty"`
	Term          uint64 `json:"term"`
	Configuration string `json:"configuration"`
	Adopter       string `json:"adopter,omitempty"`
	// Pages is the number of pages of the fleet; 0 means 1.
	Pages int `json:"pages,omitempty"`
	// Claim changes when a term claims the pages.
	Claim string `json:"claim,omitempty"`
}

func (r fleetRecord) ownership() cluster.Ownership {
	return cluster.Ownership{Last: r.Last, Term: r.Term, Configuration: r.Configuration, Adopter: r.Adopter}
}

// cachedVariable is the last known content of a variable.
type cachedVariable struct {
	variable *api.Variable
	// since is the time when this content was first seen.
	since  time.Time
	member memberRecord
	fleet  fleetRecord
}

func (s cachedVariable) hasChanged(listed *api.VariableMetadata) bool {
	return s.variable == nil || s.variable.ModifyIndex != listed.ModifyIndex || s.variable.CreateIndex != listed.CreateIndex
}

// sessions lists the members that were active at an index.
type sessions struct {
	index   uint64
	members map[uint64]memberRecord
}

// listAll lists all members and fleets, reads changed variables, and removes members that have
// not renewed their session for their ttl. The fleets are a consistent snapshot.
func (c *Coordinator) listAll(ctx context.Context) (there sessions, fleets []fleetRecord, err error) {
	select {
	case c.listLock <- struct{}{}:
		defer func() { <-c.listLock }()
	case <-ctx.Done():
		return there, nil, c.explained(ctx, ctx.Err())
	}
	for again := newRetry(); ; {
		there, fleets, err = c.listOnce(ctx)
		if !errors.Is(err, errChanged) || !again.sleep(ctx) {
			return there, fleets, err
		}
	}
}

// errChanged is returned if a variable changed after it was listed.
var errChanged = errors.New("variables change faster than they can be read")

func (c *Coordinator) listOnce(ctx context.Context) (there sessions, fleets []fleetRecord, err error) {
	variables, options, err := c.reader(ctx)
	if err != nil {
		return there, nil, err
	}
	listed, meta, err := variables.PrefixList(c.whoPath(), options)
	if err != nil {
		return there, nil, c.explained(ctx, err)
	}
	there = sessions{index: meta.LastIndex, members: map[uint64]memberRecord{}}
	now, seen := time.Now(), make(map[string]cachedVariable, len(listed))
	for _, variable := range listed {
		isMember := strings.HasPrefix(variable.Path, c.member(""))
		s := c.cache[variable.Path]
		if s.hasChanged(variable) {
			if s, err = c.readListed(ctx, variable, isMember); err != nil {
				return there, nil, err
			}
			c.cache[variable.Path] = s
		}
		if !isMember {
			fleets = append(fleets, s.fleet)
		} else if now.Sub(s.since) < s.member.TTL {
			there.members[variable.CreateIndex] = s.member
		} else if err := c.remove(ctx, variable.Path, variable.ModifyIndex); err != nil {
			if _, alive := errors.AsType[*conflictError](err); alive {
				err = errChanged
			}
			return there, nil, err
		} else {
			continue
		}
		seen[variable.Path] = s
	}
	c.cache = seen
	return there, fleets, nil
}

// readListed reads a listed variable. A member's variable may have been renewed since it was
// listed. A fleet's variable must be unchanged, because its new owner may not be among the listed
// members.
func (c *Coordinator) readListed(ctx context.Context, listed *api.VariableMetadata, isMember bool) (s cachedVariable, err error) {
	s.variable, _, err = c.read(ctx, listed.Path)
	if err != nil {
		return s, err
	}
	if s.variable == nil || s.variable.CreateIndex != listed.CreateIndex || !isMember && s.variable.ModifyIndex != listed.ModifyIndex {
		return s, errChanged
	}
	s.since = time.Now()
	if isMember {
		return s, valueOf(s.variable, &s.member)
	}
	return s, valueOf(s.variable, &s.fleet)
}

// View implements [cluster.Coordinator].
func (c *Coordinator) View(ctx context.Context) (cluster.View, error) {
	view := cluster.View{Members: map[string]cluster.Member{}, Fleets: map[string]cluster.Ownership{}}
	there, fleets, err := c.listAll(ctx)
	if err != nil {
		return view, err
	}
	for _, member := range there.members {
		view.Members[member.Name] = member.Member
	}
	for _, record := range fleets {
		owned := record.ownership()
		if _, is := there.members[record.Session]; is {
			owned.Owner = record.Owner
		}
		view.Fleets[record.Name] = owned
	}
	return view, nil
}

// Configure implements [cluster.Coordinator].
func (c *Coordinator) Configure(ctx context.Context, fleet, configuration, adopter string) error {
	_, _, err := c.changeFleet(ctx, fleet, func(r fleetRecord, _ *api.Variable) (fleetRecord, error) {
		r.Configuration, r.Adopter = configuration, adopter
		return r, nil
	})
	return err
}

// Forget implements [cluster.Coordinator].
func (c *Coordinator) Forget(ctx context.Context, fleet, configuration string) error {
	there, fleets, err := c.listAll(ctx)
	i := slices.IndexFunc(fleets, func(r fleetRecord) bool { return r.Name == fleet && r.Configuration == configuration })
	if err != nil || i < 0 || len(there.members) > 0 {
		return err
	}
	_, _, err = c.changeFleet(ctx, fleet, func(r fleetRecord, _ *api.Variable) (fleetRecord, error) {
		if r.Term == fleets[i].Term && r.Session == fleets[i].Session && r.Configuration == configuration { // otherwise a member has joined
			r.Configuration = ""
		}
		return r, nil
	})
	return err
}

// Key implements [cluster.Coordinator].
func (c *Coordinator) Key(ctx context.Context) ([]byte, error) {
	key := cluster.NewKey()
	found, err := c.change(ctx, c.prefix+"key", nil, func(found *api.Variable) (api.VariableItems, error) {
		if found != nil {
			return nil, valueOf(found, &key)
		}
		return itemsOf(key), nil
	})
	if err != nil {
		return nil, err
	}
	return key, valueOf(found, &key)
}

// changeFleet calls change with the fleet's record and its variable, which is nil for a new fleet,
// and writes the result. If the record changes in the meantime, it starts again.
func (c *Coordinator) changeFleet(ctx context.Context, name string, change func(r fleetRecord, from *api.Variable) (fleetRecord, error)) (record fleetRecord, now *api.Variable, err error) {
	now, err = c.change(ctx, c.fleet(name), nil, func(found *api.Variable) (api.VariableItems, error) {
		record = fleetRecord{Name: name}
		if found != nil {
			if err := valueOf(found, &record); err != nil {
				return nil, err
			}
		}
		was := record
		if record, err = change(record, found); err != nil || found != nil && reflect.DeepEqual(record, was) {
			return nil, err
		}
		return itemsOf(record), nil
	})
	return record, now, err
}
