package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Clustered is a Daemon that is a member of a cluster.
type Clustered interface {
	// Cluster returns the member's view of the cluster.
	Cluster(ctx context.Context) Cluster
	// Adopt makes this member's configuration the one under which a fleet is owned.
	Adopt(ctx context.Context, fleet string) error
}

// Cluster is one member's view of its cluster.
type Cluster struct {
	// Member is the queried member, Time its clock.
	Member string    `json:"member"`
	Time   time.Time `json:"time"`
	// Problem is the reason why the member cannot take part, or why fleets have no owner; empty for
	// none. With a problem the other fields are the last known ones.
	Problem string          `json:"problem,omitempty"`
	Members []ClusterMember `json:"members"`
	Fleets  []ClusterFleet  `json:"fleets"`
}

// ClusterMember is a member of a cluster.
type ClusterMember struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Fleets is the number of fleets that it owns.
	Fleets int `json:"fleets"`
	// ClockOffsetSeconds is the difference of its clock to that of the queried member; nil if it is
	// unknown.
	ClockOffsetSeconds *float64 `json:"clock_offset_seconds,omitempty"`
	// Problem is the error of the query to the member; may be empty.
	Problem string `json:"problem,omitempty"`
}

// ClusterFleet is a fleet that members share.
type ClusterFleet struct {
	Name string `json:"name"`
	// Owner is the member that runs the fleet, Last its last owner and Next its next one; each may
	// be empty.
	Owner string `json:"owner,omitempty"`
	Last  string `json:"last,omitempty"`
	Next  string `json:"next,omitempty"`
	// Term is the number of owners so far.
	Term uint64 `json:"term"`
	// LateSeconds is the delay of the latest overdue evaluation in whole seconds; nil if it is
	// unknown.
	LateSeconds *float64 `json:"late_seconds,omitempty"`
	// Configuration identifies the configuration under which the fleet is or was owned; empty if it
	// never was.
	Configuration string `json:"configuration,omitempty"`
	// Otherwise are the members with a different configuration of the fleet, which may not own it,
	// with the identity of theirs; empty for a member without the fleet.
	Otherwise map[string]string `json:"otherwise,omitempty"`
}

// AdoptRequest is the body of a request to adopt a fleet.
type AdoptRequest struct {
	Fleet string `json:"fleet"`
}

const errAlone = "this hpad is not a member of a cluster: its configuration has no [ha]"

func (h handlers) cluster(w http.ResponseWriter, r *http.Request) {
	member, ok := h.daemon.(Clustered)
	if !ok {
		writeError(w, http.StatusNotFound, ErrorNotFound, errAlone)
		return
	}
	writeData(w, member.Cluster(r.Context()))
}

func (h handlers) adopt(w http.ResponseWriter, r *http.Request) {
	member, ok := h.daemon.(Clustered)
	if !ok {
		writeError(w, http.StatusNotFound, ErrorNotFound, errAlone)
		return
	}
	var asked AdoptRequest
	err := readBody(r, &asked)
	if err == nil && asked.Fleet == "" {
		err = errors.New(`the body has no fleet: it must be an object such as {"fleet": "prod"}`)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	if err := member.Adopt(r.Context(), asked.Fleet); err != nil {
		writeActError(w, err)
		return
	}
	writeData(w, member.Cluster(r.Context()))
}

// Cluster returns the daemon's view of its cluster; an error that is ErrNotFound if it is not a
// member of one.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return call[Cluster](ctx, c, http.MethodGet, "/api/v1/cluster", nil)
}

// Adopt makes the configuration of the queried member the one under which a fleet is owned.
func (c *Client) Adopt(ctx context.Context, fleet string) (Cluster, error) {
	return call[Cluster](ctx, c, http.MethodPost, "/api/v1/cluster/adopt", AdoptRequest{Fleet: fleet})
}
