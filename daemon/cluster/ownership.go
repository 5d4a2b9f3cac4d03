package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/guard"
)

// leaveWait is the maximum time that a stopping member waits for its runs to end.
const leaveWait = 30 * time.Second

// assign returns the intended owner of each fleet. All members compute the same result from the
// same view. A member is eligible only if it has the configuration that the fleet's owner must
// have. The intended owner is the eligible member with the highest rank that has not yet reached
// its share (rendezvous hashing with bounded loads). Members with the fleet in Reserve are eligible
// only if no other member is. The result omits fleets without an eligible member, and is empty
// during an import.
func assign(view View) map[string]string {
	if isImporting(view) {
		return nil
	}
	members := slices.Sorted(maps.Keys(view.Members))
	fleets := map[string]bool{}
	for _, member := range view.Members {
		for fleet := range member.Fleets {
			fleets[fleet] = true
		}
		for fleet := range member.Reserve {
			fleets[fleet] = true
		}
	}
	if len(fleets) == 0 {
		return nil
	}
	sharing := 0
	for _, member := range view.Members {
		if len(member.Reserve) == 0 {
			sharing++
		}
	}
	sharing = cmp.Or(sharing, len(members))
	share := (len(fleets) + sharing - 1) / sharing
	owners, loads := make(map[string]string, len(fleets)), map[string]int{}
	for _, fleet := range slices.Sorted(maps.Keys(fleets)) {
		able := slices.DeleteFunc(slices.Clone(members), func(name string) bool {
			return obstacle(view, name, fleet) != ""
		})
		if len(able) == 0 {
			continue
		}
		inReserve := func(name string) bool { _, is := view.Members[name].Reserve[fleet]; return is }
		if fit := slices.DeleteFunc(slices.Clone(able), inReserve); len(fit) > 0 {
			able = fit
		}
		slices.SortFunc(able, func(a, b string) int { return cmp.Compare(rank(b, fleet), rank(a, fleet)) })
		i := slices.IndexFunc(able, func(name string) bool { return loads[name] < share })
		owner := able[max(i, 0)]
		owners[fleet] = owner
		loads[owner]++
	}
	return owners
}

// obstacle returns the reason why a member cannot take over a fleet, or "" if it can.
func obstacle(view View, member, fleet string) string {
	has, ok := view.Members[member].identity(fleet)
	recorded := view.Fleets[fleet].Configuration
	switch {
	case !ok:
		return "does not have the fleet, or failed to run it"
	case recorded == "" || recorded == has:
		return ""
	}
	return "its configuration differs in " + config.Difference(has, recorded)
}

// obstacles returns the obstacles of the live members, each with the member's name, except those of
// one member. It reports whether another member can take over the fleet.
func obstacles(view View, fleet, except string) (texts []string, able bool) {
	for _, member := range slices.Sorted(maps.Keys(view.Members)) {
		if member == except {
			continue
		}
		reason := obstacle(view, member, fleet)
		if reason == "" {
			able = true
			continue
		}
		texts = append(texts, member+": "+reason)
	}
	return texts, able
}

// whyUnowned describes a fleet that no member can take over: the time when it lost its owner, its
// last owner, and the obstacle of each member.
func (c *Cluster) whyUnowned(view View, fleet string) string {
	text := fleet
	if since := c.unownedSince(fleet); !since.IsZero() {
		text += " since " + since.UTC().Format(time.RFC3339)
	}
	if last := view.Fleets[fleet].Last; last != "" {
		text += ", last owner " + last
	}
	texts, _ := obstacles(view, fleet, "")
	return strings.Join(append([]string{text}, texts...), "; ")
}

// unownedSince returns the time when this member last saw an owner of a fleet, or zero.
func (c *Cluster) unownedSince(fleet string) time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.owned[fleet]
}

func rank(member, fleet string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + fleet))
	return binary.BigEndian.Uint64(sum[:])
}

func (c *Cluster) settle(ctx context.Context, session Session, view View) {
	owners, active := assign(view), c.active.Load()
	c.mu.RLock()
	runs := maps.Clone(c.runs)
	c.mu.RUnlock()
	for fleet, r := range runs {
		if r.isOver(session) {
			r.end("the lease has ended")
		}
		if active.fleets[fleet] == nil {
			r.end("removed from the configuration")
		}
	}
	var orphans []string
	var failed []error
	for _, fleet := range active.names() {
		c.settleFleet(ctx, session, view.Fleets[fleet], owners[fleet], runs[fleet], fleet)
		if owners[fleet] == "" && view.Fleets[fleet].Owner == "" && c.isPublished(view, fleet) {
			if err := c.failure(fleet); err != nil {
				failed = append(failed, err)
			} else {
				orphans = append(orphans, c.whyUnowned(view, fleet))
			}
		}
	}
	c.releaseForgotten(ctx, session, view)
	var err error
	if isImporting(view) {
		err = errImporting
	} else if len(orphans) > 0 {
		err = fmt.Errorf("no owner, and no member can take over: %s (load the last owner's configuration on a member, or run \"hpad cluster adopt FLEET\" on a member to use its own)",
			strings.Join(orphans, " | "))
	}
	err = errors.Join(append(failed, err)...)
	if news, fields := c.orphaned.Set(err); news && err != nil {
		c.log.Error("fleets have no owner", append(fields, zap.NamedError("err", err))...)
	}
}

// failure is the error with which this member last failed to run a fleet.
type failure struct {
	err error
	// until is the time until which the member cannot take over the fleet. Until reserve, the fleet is
	// in the member's Reserve.
	until, reserve time.Time
}

// failure returns the error with which this member last failed to run a fleet, or nil if it can take
// the fleet over.
func (c *Cluster) failure(fleet string) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if failed := c.unfit[fleet]; time.Now().Before(failed.until) {
		return fmt.Errorf("fleet %q has no owner, and member %s failed to run it: %w", fleet, c.options.Member.Name, failed.err)
	}
	return nil
}

// isPublished reports whether a view is recent enough to decide whether this member may own a
// fleet: the view lists the fleet for this member, or this member deliberately does not publish
// it.
func (c *Cluster) isPublished(view View, fleet string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, published := view.Members[c.options.Member.Name].identity(fleet)
	return published || time.Now().Before(c.unfit[fleet].until)
}

// settleFleet starts or ends the run of a fleet. The argument now is the fleet's ownership in the
// view, and next is its intended owner, or "".
func (c *Cluster) settleFleet(ctx context.Context, session Session, now Ownership, next string, r *run, fleet string) {
	me := c.options.Member.Name
	if r != nil && r.currentTerm() != nil {
		delete(c.adopters, fleet)
	}
	switch {
	case r == nil && now.Owner == "" && now.Term > 0 && c.awaitsOwner(fleet):
	case r == nil && (now.Owner == "" && next == me || now.Owner == me): // this member is the owner if the response to Acquire was lost
		starting := newRun(ctx, c, session, fleet)
		if now.Owner != me { // otherwise the new term has removed the adopter from the view
			c.adopters[fleet] = now.Adopter
		}
		starting.adopter, starting.former = c.adopters[fleet], now.Last
		c.start(starting)
	case r == nil || !r.isRunning():
	case now.Term > r.currentTerm().Number():
		r.end("another member has owned it since")
	case now.Term < r.currentTerm().Number(): // the view is outdated
	case now.Owner == "" && !time.Now().Before(session.Expires()): // this member must join again first
	case now.Owner == "" && next != "": // even if next is another member, which has not received the state of this run
		c.regain(ctx, session, r)
	case now.Owner == "":
		r.end("the lease has ended, and no member has the fleet's configuration")
	case now.Owner == me && next != "" && next != me:
		r.end("handed over to " + next)
	}
}

// awaitsOwner reports whether the last owner of a fleet may still run it and join again, because
// the store was unreachable for all members. Only that owner has the recommendations from the
// outage, so the other members wait one TTL for it to join.
func (c *Cluster) awaitsOwner(fleet string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return time.Since(c.rejoined) < c.options.TTL && c.owned[fleet].Before(c.rejoined)
}

// releaseForgotten releases fleets that this member owns although they are not configured, for
// example after a failed request to release them. Otherwise the member would own them as long as it
// renews its lease.
func (c *Cluster) releaseForgotten(ctx context.Context, session Session, view View) {
	active := c.active.Load()
	for fleet, now := range view.Fleets {
		if now.Owner != c.options.Member.Name || active.fleets[fleet] != nil || c.runOf(fleet) != nil {
			continue
		}
		call, cancel := c.call(ctx)
		term, err := session.Acquire(call, fleet, now.Configuration)
		if err == nil {
			err = term.Release(call)
		}
		cancel()
		if err != nil && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrConfigurationDiffers) {
			return // the next update tries again
		}
	}
}

func (c *Cluster) start(r *run) {
	c.mu.Lock()
	r.owned = c.owned[r.fleet]
	c.runs[r.fleet] = r
	c.mu.Unlock()
	guard.Go(func() {
		err := guard.Call(r.run)
		c.mu.Lock()
		delete(c.runs, r.fleet)
		if err != nil {
			c.unfit[r.fleet] = failure{err: err, until: time.Now().Add(unfitFor), reserve: time.Now().Add(reserveFor)}
		}
		c.mu.Unlock()
		close(r.done)
		if r.currentTerm() != nil { // after a failed takeover, the next regular update tries again
			c.updateSoon()
		}
	})
}

// regain acquires a running fleet again after the lease has ended. It ends the run if another
// member has owned the fleet since.
func (c *Cluster) regain(ctx context.Context, session Session, r *run) {
	if !c.hasAppliedLast() { // all autoscalers may have been paused in the meantime
		return // the next update tries again
	}
	call, cancel := c.call(ctx)
	defer cancel()
	term, err := session.Acquire(call, r.fleet, c.active.Load().identities[r.fleet])
	if err != nil {
		return // the next update tries again
	}
	if term.Number() != r.currentTerm().Number()+1 {
		_ = term.Release(call) // if this fails, the term ends with the lease
		r.end("another member has owned it since")
		return
	}
	r.resume(session, term)
	c.log.Info("fleet ownership regained", zap.String("fleet", r.fleet))
}

// leave hands over all fleets and ends the membership.
func (c *Cluster) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	c.mu.RLock()
	runs, session := slices.Collect(maps.Values(c.runs)), c.session
	c.mu.RUnlock()
	for _, r := range runs {
		r.end("shutdown")
	}
	for _, fleet := range c.Fleets() {
		c.closeArchive(fleet)
	}
	for _, r := range runs {
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	}
	if session == nil {
		return
	}
	call, cancel := c.call(context.Background()) // not ctx, which may have ended
	defer cancel()
	if err := session.Leave(call); err != nil {
		c.log.Warn("leaving the cluster failed", zap.NamedError("err", err))
		return
	}
	if err := c.forget(call); err != nil {
		c.log.Warn("removing the recorded configurations failed", zap.NamedError("err", err))
	}
}

// forget removes the recorded configurations if all members have left. The members can then start
// with a different configuration.
func (c *Cluster) forget(ctx context.Context) error {
	view, err := c.options.Coordinator.View(ctx)
	if err != nil || len(view.Members) > 0 {
		return err
	}
	for fleet, now := range view.Fleets {
		if now.Owner == "" && now.Configuration != "" && fleet != importMark && fleet != pauseMark {
			if err := c.options.Coordinator.Forget(ctx, fleet, now.Configuration); err != nil {
				return err
			}
		}
	}
	return nil
}
