package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

func (v *clusterView) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	var all []api.Recorded
	for _, d := range v.daemons() {
		some, err := d.History(ctx, name, from, to, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	past, err := v.archived(ctx, name, from, to, limit)
	if err != nil {
		return nil, err
	}
	all = append(all, status.Recorded(past, new(clock.Scale))...)
	for _, found := range fromEach(ctx, v, name, "decisions", peerTimeout, func(ctx context.Context, member *api.Client) ([]api.Recorded, error) {
		return member.History(ctx, name, api.HistoryQuery{From: from, To: to, Limit: limit})
	}) {
		all = append(all, found...)
	}
	return newest(all, limit, func(r api.Recorded) time.Time { return r.Time }), nil
}

// newest returns the newest entries, oldest first. A limit of 0 means all entries.
func newest[T any](all []T, limit int, at func(T) time.Time) []T {
	slices.SortStableFunc(all, func(a, b T) int { return at(a).Compare(at(b)) })
	if limit == 0 {
		return all
	}
	return all[max(0, len(all)-limit):]
}

func (v *clusterView) VerifyHistory(ctx context.Context, name string, from, to time.Time) (sum api.Verification, err error) {
	all := fromEach(ctx, v, name, "decisions", verifyTimeout, func(ctx context.Context, member *api.Client) (api.Verification, error) {
		return api.Get[api.Verification](ctx, member, api.PathOf(policy.Scope{Autoscaler: name}, "history", "verify"), api.Period{From: from, To: to})
	})
	for _, d := range v.daemons() {
		found, err := d.VerifyHistory(ctx, name, from, to)
		if err != nil {
			return sum, err
		}
		all = append(all, found)
	}
	for _, found := range all {
		sum.Engine = found.Engine
		sum.Checked += found.Checked
		sum.Identical += found.Identical
		sum.Different += found.Different
		sum.NotVerifiable += found.NotVerifiable
		sum.Differences = append(sum.Differences, found.Differences...)
	}
	sum.Differences = newest(sum.Differences, state.MaxDifferences, func(d api.Difference) time.Time { return d.Time })
	return sum, nil
}

// fromEach calls read for all other members concurrently, each within a time limit, and returns
// their responses. For each member that does not respond, it adds a warning to the response of the
// request that ctx belongs to. The warnings about members that cannot be called name the missing
// data.
func fromEach[T any](ctx context.Context, v *clusterView, autoscaler, data string, within time.Duration, read func(context.Context, *api.Client) (T, error)) (found []T) {
	peers := v.peers()
	responses := make([]T, len(peers))
	errs := guard.Each(len(peers), peers, func(i int, p *peer) (err error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		responses[i], err = read(ctx, p.client)
		return err
	})
	for i, p := range peers {
		switch err := errs[i]; {
		case err == nil:
			p.note(nil)
			found = append(found, responses[i])
		case errors.Is(err, api.ErrNotFound): // the member has no autoscaler with that name
			p.note(nil)
		case ctx.Err() != nil: // the client disconnected; the member may be available
		default:
			p.note(err)
			api.Warn(ctx, fmt.Sprintf("member %s does not respond: %v", p.name, err))
		}
	}
	if _, viewed, _ := v.View(); v.whole && viewed.IsZero() {
		api.Warn(ctx, fmt.Sprintf("the %s of other members are missing: %s", data, v.storeProblem()))
	}
	for _, name := range v.departed(autoscaler) {
		api.Warn(ctx, fmt.Sprintf("member %s is no longer in the cluster; its %s are missing", name, data))
	}
	return found
}

// departed returns the former members that this member has seen, and the last owner of an
// autoscaler's fleet if it is no longer a member.
func (v *clusterView) departed(autoscaler string) []string {
	if !v.whole {
		return nil
	}
	view, _, _ := v.View()
	names := []string{view.Fleets[v.FleetOf(autoscaler)].Last}
	v.known.mu.Lock()
	defer v.known.mu.Unlock()
	for _, p := range v.known.peers {
		names = append(names, p.name)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		_, is := view.Members[name]
		return is || name == "" || name == v.options.Member.Name
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// ExportState implements [api.Daemon]: it exports the state of the host's own fleets and of all
// shared fleets, with this member's history.
func (v *clusterView) ExportState(ctx context.Context, to io.Writer, history bool) error {
	if !v.whole {
		return v.own.ExportState(ctx, to, history)
	}
	fleets, err := ReadAll(ctx, v.options.Coordinator)
	if err != nil {
		return err
	}
	file, err := v.spool(ctx, fleets, history)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(to, file)
	return err
}

func (v *clusterView) spool(ctx context.Context, fleets []map[string][]byte, history bool) (*os.File, error) {
	own := v.options.Daemon.Store
	if !history {
		return state.Spool(ctx, own, fleets, nil)
	}
	v.archives.mu.Lock() // prevents histories from being closed
	defer v.archives.mu.Unlock()
	histories, err := v.stores(v.Fleets())
	if err != nil {
		return nil, err
	}
	return state.Spool(ctx, own, fleets, append([]state.Store{own}, histories...))
}

// archives contains the open histories of fleets that this member owned earlier. A fleet's archive is
// closed before its daemon starts.
type archives struct {
	mu   sync.Mutex
	open map[string]state.Store
}

// archived returns the history that this member recorded for fleets that it no longer runs. It has
// the same parameters as [state.Store.History].
func (c *Cluster) archived(ctx context.Context, name string, from, to time.Time, limit int) (all []state.Entry, err error) {
	c.archives.mu.Lock()
	defer c.archives.mu.Unlock()
	stores, err := c.stores(slices.DeleteFunc(c.Fleets(), func(fleet string) bool {
		return c.runOf(fleet) != nil || name != "" && c.FleetOf(name) != fleet
	}))
	for _, archive := range stores {
		if err == nil {
			var entries []state.Entry
			entries, err = archive.History(ctx, name, from, to, limit)
			all = append(all, entries...)
		}
	}
	return all, err
}

// stores returns the stores with the history that this member recorded for fleets. It opens the
// histories of fleets that do not run here. The caller must hold archives.mu.
func (c *Cluster) stores(fleets []string) (all []state.Store, err error) {
	for _, fleet := range fleets {
		store := c.archives.open[fleet]
		if r := c.runOf(fleet); r != nil {
			r.mu.Lock()
			store = r.store
			r.mu.Unlock()
		} else if _, err := os.Stat(c.dir(fleet)); store == nil && err == nil { // this member has run the fleet
			if store, err = state.Open(c.dir(fleet), state.Options{}); err != nil {
				return nil, fmt.Errorf("open the history of fleet %q: %w", fleet, err)
			}
			c.archives.open[fleet] = store
		}
		if store != nil {
			all = append(all, store)
		}
	}
	return all, nil
}

// closeArchive closes a fleet's history, so that a daemon can open it.
func (c *Cluster) closeArchive(fleet string) {
	c.archives.mu.Lock()
	defer c.archives.mu.Unlock()
	if archive := c.archives.open[fleet]; archive != nil {
		delete(c.archives.open, fleet)
		if err := archive.Close(); err != nil {
			c.log.Warn("closing a fleet's history failed", zap.String("fleet", fleet), zap.NamedError("err", err))
		}
	}
}
