package nomad

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/cluster"
)

// memberRecord is the value of who/members/NAME.
type memberRecord struct {
	cluster.Member
	TTL time.Duration `json:"ttl"`
	// Nonce is of who created it.
	Nonce string `json:"nonce"`
}

// fleetRecord is the value of who/fleets/FLEET.
type fleetRecord struct {
	Name string `json:"name"`
	// Owner and Session are a member and its session; empty once the term was ended.
	Owner   string `json:"owner,omitempty"`
	Session uint64 `json:"session,omitempty"`
	// Last is who owned it last, in the term of that number, 0 before the first.
	Last          string `json:"last,omitempty"`
	Term          uint64 `json:"term"`
	Configuration string `json:"configuration"`
	// Pages is the number of pages of its state; 0 means 1.
	Pages int `json:"pages,omitempty"`
	// Claim is a text that changes when a term claims the pages.
	Claim string `json:"claim,omitempty"`
	// Past are those who owned it before.
	Past []cluster.PastOwner `json:"past,omitempty"`
}

// ownership is the record's, without its owner.
func (r fleetRecord) ownership() cluster.Ownership {
	return cluster.Ownership{Last: r.Last, Past: r.Past, Term: r.Term, Configuration: r.Configuration}
}

// sighting is what was last seen of a variable.
type sighting struct {
	variable *api.Variable
	// since is when the variable was first seen as it is.
	since  time.Time
	member memberRecord
	fleet  fleetRecord
}

// isNews reports whether a variable is not the one that was seen.
func (s sighting) isNews(listed *api.VariableMetadata) bool {
	return s.variable == nil || s.variable.ModifyIndex != listed.ModifyIndex || s.variable.CreateIndex != listed.CreateIndex
}

// sessions are the members that are there, as of an index.
type sessions struct {
	index   uint64
	members map[uint64]memberRecord
}

// look lists all members and fleets, reads what is news, and removes members that did not
// say so for their ttl that they are there. The fleets are as of the same moment.
func (c *Coordinator) look(ctx context.Context) (there sessions, fleets []fleetRecord, err error) {
	select {
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return there, nil, c.explained(ctx, ctx.Err())
	}
	for again := begin(); ; {
		there, fleets, err = c.lookOnce(ctx)
		if !errors.Is(err, errMoved) || !again.wait(ctx) {
			return there, fleets, err
		}
	}
}

// errMoved is that a variable changed after it was listed.
var errMoved = errors.New("variables change faster than they can be read")

func (c *Coordinator) lookOnce(ctx context.Context) (there sessions, fleets []fleetRecord, err error) {
	variables, options, err := c.asking(ctx)
	if err != nil {
		return there, nil, err
	}
	listed, meta, err := variables.PrefixList(c.everybody(), options)
	if err != nil {
		return there, nil, c.explained(ctx, err)
	}
	there = sessions{index: meta.LastIndex, members: map[uint64]memberRecord{}}
	now, seen := time.Now(), make(map[string]sighting, len(listed))
	for _, variable := range listed {
		isMember := strings.HasPrefix(variable.Path, c.member(""))
		s := c.seen[variable.Path]
		if s.isNews(variable) {
			if s, err = c.see(ctx, variable, isMember); err != nil {
				return there, nil, err
			}
			c.seen[variable.Path] = s
		}
		if !isMember {
			fleets = append(fleets, s.fleet)
		} else if now.Sub(s.since) < s.member.TTL {
			there.members[variable.CreateIndex] = s.member
		} else if err := c.remove(ctx, variable.Path, variable.ModifyIndex); err != nil {
			if _, alive := errors.AsType[*conflictError](err); alive {
				err = errMoved
			}
			return there, nil, err
		} else {
			continue
		}
		seen[variable.Path] = s
	}
	c.seen = seen
	return there, fleets, nil
}

// see reads a variable that was listed. Of a member it may be a later one of the same
// session, of a fleet it is the one that was listed, or the members that were may be too
// few.
func (c *Coordinator) see(ctx context.Context, listed *api.VariableMetadata, isMember bool) (s sighting, err error) {
	s.variable, _, err = c.read(ctx, listed.Path)
	if err != nil {
		return s, err
	}
	if s.variable == nil || s.variable.CreateIndex != listed.CreateIndex || !isMember && s.variable.ModifyIndex != listed.ModifyIndex {
		return s, errMoved
	}
	s.since = time.Now()
	if isMember {
		return s, valueOf(s.variable, &s.member)
	}
	return s, valueOf(s.variable, &s.fleet)
}

// View is as [cluster.Coordinator] has it.
func (c *Coordinator) View(ctx context.Context) (cluster.View, error) {
	view := cluster.View{Members: map[string]cluster.Member{}, Fleets: map[string]cluster.Ownership{}}
	there, fleets, err := c.look(ctx)
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

// Configure is as [cluster.Coordinator] has it.
func (c *Coordinator) Configure(ctx context.Context, fleet, configuration string) error {
	_, _, err := c.changeFleet(ctx, fleet, func(r fleetRecord, _ *api.Variable) (fleetRecord, error) {
		r.Configuration = configuration
		return r, nil
	})
	return err
}

// changeFleet changes the record of a fleet, until it is as change wants it. The variable
// is that which the record was read of, nil where there is none yet.
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
