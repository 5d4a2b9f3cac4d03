package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Clustered is implemented by a Daemon that is a member of a cluster.
type Clustered interface {
	// Cluster returns this member's view of the cluster.
	Cluster(ctx context.Context) Cluster
	// Problems returns the reasons why this member may lack the current status of autoscalers, and
	// the fleets that no other live member can take over.
	Problems() []Problem
	// Adopt makes this member's configuration of a fleet the one that every owner of the fleet must
	// have.
	Adopt(ctx context.Context, fleet string) error
}

// Cluster is one member's view of its cluster.
type Cluster struct {
	// Member is the name of the queried member. Time is the current time by its clock.
	Member string    `json:"member"`
	Time   time.Time `json:"time"`
	// Problem is the reason why the member cannot participate in the cluster, or why fleets have
	// no owner. It is empty if there is no problem. If there is one, the other fields contain the
	// last known values.
	Problem string `json:"problem,omitempty"`
	// LastRead is zero if the cluster store responds. Otherwise it is the time when the member last
	// read the store, and Members and Fleets are from that time.
	LastRead time.Time       `json:"last_read,omitzero"`
	Members  []ClusterMember `json:"members"`
	Fleets   []ClusterFleet  `json:"fleets"`
}

// ClusterMember is a member of a cluster.
type ClusterMember struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Fleets is the number of fleets that the member owns.
	Fleets int `json:"fleets"`
	// ClockOffsetSeconds is the offset of the member's clock from the queried member's clock, or
	// nil if it is unknown.
	ClockOffsetSeconds *float64 `json:"clock_offset_seconds,omitempty"`
	// Problem describes the failure of the member, such as an error when it was queried. It may be
	// empty.
	Problem string `json:"problem,omitempty"`
}

// ClusterFleet is a fleet that members share.
type ClusterFleet struct {
	Name string `json:"name"`
	// Owner is the member that runs the fleet; empty if no member does. Last is the last owner. Next
	// is the next owner; empty if no member may own the fleet.
	Owner string `json:"owner,omitempty"`
	Last  string `json:"last,omitempty"`
	Next  string `json:"next,omitempty"`
	// Term is the number of the fleet's current or last term, or 0 if it is unknown or the fleet
	// never had an owner. Every acquisition by a member starts a term.
	Term uint64 `json:"term,omitzero"`
	// LateSeconds is the delay of the most overdue evaluation in whole seconds, or nil if it is
	// unknown.
	LateSeconds *float64 `json:"late_seconds,omitempty"`
	// Configuration identifies the configuration that the fleet's owner must have. It is empty if
	// the fleet never had an owner.
	Configuration string `json:"configuration,omitempty"`
	// Differs maps each member whose configuration of the fleet differs to the ID of that
	// configuration, or to "" if the member does not have the fleet. These members may
	// not own the fleet.
	Differs map[string]string `json:"otherwise,omitempty"`
	// UnownedSince is the time when the queried member last saw an owner. It is zero if the fleet
	// has an owner, or if the member has never seen one.
	UnownedSince time.Time `json:"unowned_since,omitzero"`
}

// AdoptRequest is the body of a request to adopt a fleet.
type AdoptRequest struct {
	// Fleet is the name of the fleet.
	Fleet string `json:"fleet" example:"prod"`
}

var errAlone = &failure{ErrorNotFound, errors.New("this hpad is not a member of a cluster: its configuration has no [ha]")}

// warnIncomplete adds a warning to the response for each reason why data may be missing or not up to
// date.
func (h handlers) warnIncomplete(r *http.Request) {
	if member, ok := h.daemon.(Clustered); ok {
		for _, problem := range member.Problems() {
			Warn(r.Context(), problem.Subject+": "+problem.Message)
		}
	}
}

func (h handlers) cluster(r *http.Request, _ none) (Cluster, error) {
	member, ok := h.daemon.(Clustered)
	if !ok {
		return Cluster{}, errAlone
	}
	return member.Cluster(r.Context()), nil
}

func (h handlers) adopt(r *http.Request, in AdoptRequest) (Cluster, error) {
	member, ok := h.daemon.(Clustered)
	switch {
	case !ok:
		return Cluster{}, errAlone
	case in.Fleet == "":
		return Cluster{}, &failure{ErrorBadData, errors.New(`the body has no fleet: it must be an object such as {"fleet": "prod"}`)}
	}
	if err := member.Adopt(r.Context(), in.Fleet); err != nil {
		return Cluster{}, err
	}
	return member.Cluster(r.Context()), nil
}
