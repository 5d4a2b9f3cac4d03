package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/page"
)

// clusterView implements the API of a member, either for the whole cluster or for the member's
// own daemons only.
type clusterView struct {
	*member
	whole bool
}

// member is an alias for Cluster, because an embedded field named Cluster would conflict with
// clusterView's method Cluster.
type member = Cluster

var (
	_ page.Daemon   = (*clusterView)(nil)
	_ api.Clustered = (*clusterView)(nil)
	_ api.Forwarder = (*clusterView)(nil)
)

// ClusterAPI returns the API for users, which covers the whole cluster.
func (c *Cluster) ClusterAPI() page.Daemon { return &clusterView{c, true} }

// MemberAPI returns the API for the other members, which covers only this member.
func (c *Cluster) MemberAPI() page.Daemon { return &clusterView{c, false} }

func (v *clusterView) Cluster(context.Context) api.Cluster {
	view, viewed, _ := v.View()
	c := api.Cluster{Problem: v.problem(), Member: v.options.Member.Name, Time: time.Now().UTC(), Members: []api.ClusterMember{}, Fleets: []api.ClusterFleet{}}
	if v.unreached.Exists() {
		c.LastRead = viewed.UTC()
	}
	owned := map[string]int{}
	for _, fleet := range v.Fleets() {
		owned[view.Fleets[fleet].Owner]++
	}
	peers := map[string]*peer{}
	for _, p := range v.refreshed() {
		peers[p.name] = p
	}
	for _, name := range v.memberNames(view) {
		member, joined := view.Members[name]
		if !joined {
			member = v.options.Member
		}
		m := api.ClusterMember{Name: name, Address: member.Address, Version: member.Version, Fleets: owned[name]}
		switch p := peers[name]; {
		case p != nil:
			p.describe(&m)
		case name == c.Member && v.unreached.Exists():
			m.Problem = "cannot reach the cluster store"
		case !joined:
			m.Problem = cmp.Or(v.unjoined.Text(), "has not joined the cluster yet")
		}
		m.Problem = joinTexts(m.Problem, v.unfitProblem(view, name))
		c.Members = append(c.Members, m)
	}
	next := assign(view)
	for _, name := range v.Fleets() {
		o := view.Fleets[name]
		fleet := api.ClusterFleet{
			Name: name, Owner: o.Owner, Last: o.Last, Next: next[name], Term: o.Term,
			Configuration: o.Configuration, Differs: map[string]string{},
		}
		if p := peers[o.Owner]; p != nil {
			fleet.LateSeconds = p.latenessOf(name)
		} else if d := v.Daemon(name); d != nil && v.lapsed(name) == "" { // otherwise another member may evaluate it
			seconds := d.Lateness().Seconds()
			fleet.LateSeconds = &seconds
		}
		for member, of := range view.Members {
			if has, ok := of.identity(name); !ok || o.Configuration != "" && has != o.Configuration {
				fleet.Differs[member] = has
			}
		}
		if o.Owner == "" {
			fleet.UnownedSince = v.unownedSince(name).UTC()
		}
		c.Fleets = append(c.Fleets, fleet)
	}
	return c
}

// Health describes the daemons of this member, because probes use it to decide whether to restart
// this process. Problems of the cluster do not affect Healthy.
func (v *clusterView) Health() api.Health {
	health := v.own.Health()
	for _, d := range v.daemons()[1:] {
		h := d.Health()
		health.Unevaluated = append(health.Unevaluated, h.Unevaluated...)
		health.HeldBack = append(health.HeldBack, h.HeldBack...)
		health.Shortages = append(health.Shortages, h.Shortages...)
		health.FailingInstances = append(health.FailingInstances, h.FailingInstances...)
		health.Failing = append(health.Failing, h.Failing...)
		health.AllFailing = cmp.Or(health.AllFailing, h.AllFailing)
		health.Unwritten = cmp.Or(health.Unwritten, h.Unwritten)
		if !h.LastTick.IsZero() { // LastTick is zero before the first round
			health.Healthy = health.Healthy && h.Healthy
		}
	}
	health.Cluster = append(v.fleetProblems(), v.memberProblems()...)
	return health
}

// fleetProblems returns the problems that prevent scaling or hide the current status of
// autoscalers: this member cannot use the cluster store, or a fleet has no owner that responds.
func (v *clusterView) fleetProblems() (problems []api.Problem) {
	if v.unreached.Exists() {
		return []api.Problem{{Subject: "cluster", Message: v.storeProblem()}}
	}
	if text := v.unjoined.Text(); text != "" {
		problems = append(problems, api.Problem{Subject: "member " + v.options.Member.Name, Message: text})
	}
	for _, fleet := range v.unlisted() {
		_, reason := v.isListed(fleet)
		problems = append(problems, api.Problem{Subject: "fleet " + fleet, Message: reason.Error()})
	}
	return problems
}

func (v *clusterView) Readiness() api.Readiness {
	ready := v.own.Readiness()
	for _, d := range v.daemons()[1:] {
		of := d.Readiness()
		ready.Ready = ready.Ready && !of.Unwritten
		ready.Problems = append(ready.Problems, of.Problems...)
	}
	if _, viewed, _ := v.View(); viewed.IsZero() || v.unstored.Exists() { // the member cannot take over fleets
		ready.Ready = false
	}
	ready.Problems = append(ready.Problems, v.Problems()...)
	if !v.unreached.Exists() && !v.unjoined.Exists() && !v.orphaned.Exists() { // otherwise Problems contains them
		ready.Problems = append(ready.Problems, v.fleetProblems()...)
	}
	for _, p := range v.peers() {
		if text := p.skewed(); text != "" {
			ready.Problems = append(ready.Problems, api.Problem{Subject: "member " + p.name, Message: text})
		}
	}
	return ready
}

// problem describes the current problem with the cluster, or returns "" if there is none.
func (v *clusterView) problem() string {
	if _, _, err := v.View(); err != nil && !v.unreached.Exists() {
		return err.Error()
	}
	return v.storeProblem()
}

// Problems implements [api.Clustered].
func (v *clusterView) Problems() (problems []api.Problem) {
	if text := v.problem(); text != "" {
		problems = append(problems, api.Problem{Subject: "cluster", Message: text})
	}
	if text := v.commands.failed.Text(); text != "" {
		problems = append(problems, api.Problem{Subject: "member " + v.options.Member.Name, Message: "pause or resumption of all autoscalers failed: " + text})
	}
	for _, p := range v.peers() {
		if _, _, err := p.lists(); err != nil {
			problems = append(problems, api.Problem{Subject: "member " + p.name, Message: "does not respond: " + err.Error()})
		}
	}
	problems = append(problems, v.memberProblems()...)
	if !v.unreached.Exists() { // otherwise the live members are unknown
		problems = append(problems, v.irreplaceable()...)
	}
	return problems
}

// irreplaceable returns a problem for the fleets that no live member except their owner can run.
// Fleets with the same cause share a problem.
func (v *clusterView) irreplaceable() (problems []api.Problem) {
	view, _, _ := v.View()
	for _, fleet := range v.Fleets() {
		owner := view.Fleets[fleet].Owner
		texts, able := obstacles(view, fleet, owner)
		if owner == "" || able || len(texts) == 0 {
			continue
		}
		message := "no other member can take over: " + strings.Join(texts, "; ")
		if i := slices.IndexFunc(problems, func(p api.Problem) bool { return p.Message == message }); i >= 0 {
			problems[i].Subject = strings.Replace(problems[i].Subject, "fleet ", "fleets ", 1) + ", " + fleet
			continue
		}
		problems = append(problems, api.Problem{Subject: "fleet " + fleet, Message: message})
	}
	return problems
}

func (v *clusterView) ReloadChanges(ctx context.Context) ([]config.Change, error) {
	return v.reload(ctx, true)
}

func (v *clusterView) Config() string {
	if active := v.active.Load(); active != nil {
		return active.whole.Redacted()
	}
	return ""
}

func (v *clusterView) ConfigFile() string { return v.own.ConfigFile() }

func (v *clusterView) AutoscalerConfig(name string) string {
	for _, d := range v.daemons() {
		if text := d.AutoscalerConfig(name); text != "" {
			return text
		}
	}
	if active := v.active.Load(); active != nil && active.whole.Autoscalers[name] != nil {
		return active.whole.Autoscalers[name].Redacted(name)
	}
	return ""
}
