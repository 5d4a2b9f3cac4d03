package cluster

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
)

const (
	// probeInterval is the interval between checks whether the member can store state.
	probeInterval = 5 * time.Second
	// recoveredAfter is the time without a failed check after which the member takes over fleets again,
	// so that a disk that is nearly full does not move fleets back and forth.
	recoveredAfter = time.Minute
	// After failedCommits consecutive commits that failed on the member's disk, the member leaves the
	// fleet to the other members.
	failedCommits = 3
)

// probe checks whether the member can store state. If not, it moves all fleets to Reserve.
func (c *Cluster) probe() {
	if c.options.Dir == "" {
		return
	}
	err := state.Probe(c.options.Dir)
	for _, fleet := range c.Fleets() {
		if _, missing := os.Lstat(c.dir(fleet)); missing == nil && err == nil {
			err = state.Probe(c.dir(fleet))
		}
	}
	before := c.unstored.Exists()
	if news, fields := c.unstored.Set(err); news && err != nil {
		c.log.Error("state cannot be stored, fleets left to other members", append(fields, zap.NamedError("err", err))...)
	} else if news {
		c.log.Info("state can be stored again", fields...)
	}
	c.mu.Lock()
	switch {
	case err != nil:
		c.unfit[Own] = failure{err: err, reserve: time.Now().Add(recoveredAfter)}
	case before: // failures to run a fleet had the same cause
		maps.DeleteFunc(c.unfit, func(fleet string, _ failure) bool { return fleet != Own })
	}
	c.mu.Unlock()
	if before != (err != nil) {
		c.updateSoon()
	}
}

// described returns the description of this member that it publishes. Fleets that it fails to run
// are in Reserve, or absent.
func (c *Cluster) described() Member {
	member := c.options.Member
	member.Fleets, member.Command = maps.Clone(c.active.Load().identities), c.commands.lastConfirmed()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for fleet, r := range c.runs {
		if d := r.daemon.Load(); d != nil {
			if err := d.DiskError(failedCommits); err != nil {
				c.unfit[fleet] = failure{err: err, reserve: now.Add(reserveFor)}
			}
		}
	}
	maps.DeleteFunc(c.unfit, func(_ string, failed failure) bool { return !now.Before(failed.until) && !now.Before(failed.reserve) })
	var texts []string
	for _, fleet := range slices.Sorted(maps.Keys(member.Fleets)) {
		failed, is := c.unfit[fleet]
		if !is {
			failed, is = c.unfit[Own]
		}
		if !is {
			continue
		}
		if !now.Before(failed.until) {
			if member.Reserve == nil {
				member.Reserve = map[string]string{}
			}
			member.Reserve[fleet] = member.Fleets[fleet]
		}
		delete(member.Fleets, fleet)
		if text := failed.err.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	member.Problem = problem.Shorten(strings.Join(texts, "; "))
	return member
}

// unfitProblem returns the reason why a member leaves fleets to other members, or "". It uses the
// current state of this member, because the store may be unreachable.
func (v *clusterView) unfitProblem(view View, member string) string {
	published := view.Members[member].Problem
	if member == v.options.Member.Name {
		return cmp.Or(v.unstored.Text(), published)
	}
	return published
}

// memberNames returns the sorted names of the members in a view and of this member.
func (v *clusterView) memberNames(view View) []string {
	names := append(slices.Collect(maps.Keys(view.Members)), v.options.Member.Name)
	slices.Sort(names)
	return slices.Compact(names)
}

// memberProblems returns the members that leave fleets to other members.
func (v *clusterView) memberProblems() (problems []api.Problem) {
	view, _, _ := v.View()
	for _, name := range v.memberNames(view) {
		if text := v.unfitProblem(view, name); text != "" {
			problems = append(problems, api.Problem{Subject: "member " + name, Message: text})
		}
	}
	return problems
}
