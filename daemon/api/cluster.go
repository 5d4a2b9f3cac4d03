package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Clustered is a Daemon that is a member of a cluster.
type Clustered interface {
	// Cluster returns what the member knows of its cluster.
	Cluster(ctx context.Context) Cluster
	// Adopt has a fleet owned under this member's configuration from now on.
	Adopt(ctx context.Context, fleet string) error
}

// Cluster is what one member knows of its cluster.
type Cluster struct {
	// Member is the one that was asked, Time what its clock shows.
	Member string    `json:"member"`
	Time   time.Time `json:"time"`
	// Problem is why it cannot take part, or what keeps fleets without an owner; empty
	// where nothing is wrong. What follows is as it was last known then.
	Problem string          `json:"problem,omitempty"`
	Members []ClusterMember `json:"members"`
	Fleets  []ClusterFleet  `json:"fleets"`
}

// ClusterMember is a member of a cluster.
type ClusterMember struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Fleets is how many it owns.
	Fleets int `json:"fleets"`
	// ClockOffsetSeconds is how far its clock is ahead of that of the member that was
	// asked; nil where it did not say.
	ClockOffsetSeconds *float64 `json:"clock_offset_seconds,omitempty"`
	// Problem is why it did not answer; empty where it did.
	Problem string `json:"problem,omitempty"`
}

// ClusterFleet is a fleet that members share.
type ClusterFleet struct {
	Name string `json:"name"`
	// Owner is the member that runs it, empty while none does, Last who did last, and Next
	// who is to; empty where nobody may.
	Owner string `json:"owner,omitempty"`
	Last  string `json:"last,omitempty"`
	Next  string `json:"next,omitempty"`
	// Term counts its owners.
	Term uint64 `json:"term"`
	// LateSeconds is for how long the autoscaler of it that waits longest should have been
	// evaluated, whole seconds; nil where its owner, if there is one, does not say.
	LateSeconds *float64 `json:"late_seconds,omitempty"`
	// Configuration identifies the configuration under which it is owned, or was last;
	// empty where it never was.
	Configuration string `json:"configuration,omitempty"`
	// Otherwise are the members that have it configured in another way, and may not take
	// it over, with what identifies theirs; empty for one that does not have it.
	Otherwise map[string]string `json:"otherwise,omitempty"`
}

// AdoptRequest is the body of a request to have a fleet owned under the asked member's
// configuration.
type AdoptRequest struct {
	Fleet string `json:"fleet"`
}

// errAlone is that there is no cluster to ask about.
const errAlone = "this hpad is no member of a cluster: its configuration has no [ha]"

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
		err = errors.New(`the body names no fleet: it has to be as {"fleet": "prod"}`)
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

// Cluster returns what the daemon knows of its cluster; an error that is ErrNotFound means
// that it is a member of none.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return call[Cluster](ctx, c, http.MethodGet, "/api/v1/cluster", nil)
}

// Adopt has a fleet owned under the configuration of the member that is asked.
func (c *Client) Adopt(ctx context.Context, fleet string) (Cluster, error) {
	return call[Cluster](ctx, c, http.MethodPost, "/api/v1/cluster/adopt", AdoptRequest{Fleet: fleet})
}
