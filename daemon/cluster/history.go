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
	slices.SortStableFunc(all, func(a, b api.Recorded) int { return a.Time.Compare(b.Time) })
	if limit > 0 && len(all) > limit {
		all = all[len(all)-limit:]
	}
	return all, nil
}

func (v *clusterView) VerifyHistory(ctx context.Context, name string, from, to time.Time) (api.Verification, error) {
	var sum api.Verification
	add := func(found api.Verification) {
		sum.Engine = found.Engine
		sum.Checked += found.Checked
		sum.Identical += found.Identical
		sum.Different += found.Different
		sum.NotVerifiable += found.NotVerifiable
		sum.Differences = append(sum.Differences, found.Differences...)
	}
	for _, found := range fromEach(ctx, v, name, "decisions", 0, func(ctx context.Context, member *api.Client) (api.Verification, error) {
		return api.Get[api.Verification](ctx, member, api.PathOf(policy.Scope{Autoscaler: name}, "history", "verify"), api.Period{From: from, To: to})
	}) {
		add(found)
	}
	for _, d := range v.daemons() {
		found, err := d.VerifyHistory(ctx, name, from, to)
		if err != nil {
			return sum, err
		}
		add(found)
	}
	slices.SortStableFunc(sum.Differences, func(a, b api.Difference) int { return a.Time.Compare(b.Time) })
	sum.Differences = sum.Differences[max(0, len(sum.Differences)-state.MaxDifferences):]
	return sum, nil
}

// fromEach calls read for all other members concurrently and returns their responses. The time
// limit of each call is within; 0 means no limit. For each member that does not respond, it adds a
// warning to the response of the request that ctx belongs to. The warnings about members that cannot
// be called name the missing data.
func fromEach[T any](ctx context.Context, v *clusterView, autoscaler, data string, within time.Duration, read func(context.Context, *api.Client) (T, error)) []T {
	peers := v.peers()
	responses, errs := make([]T, len(peers)), make([]error, len(peers))
	var all guard.Group
	for i, p := range peers {
		all.Go(func() error {
			ctx, cancel := ctx, context.CancelFunc(func() {})
			if within > 0 {
				ctx, cancel = context.WithTimeout(ctx, within)
			}
			defer cancel()
			responses[i], errs[i] = read(ctx, p.client)
			return nil
		})
	}
	_ = all.Wait() // each member has its own error
	var found []T
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
	view, _, _ := v.View()
	if !v.whole {
		return nil
	}
	names, last := v.gone(view), view.Fleets[v.FleetOf(autoscaler)].Last
	if _, is := view.Members[last]; !is && last != "" && !slices.Contains(names, last) {
		names = append(names, last)
	}
	return names
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
	if !history {
		return state.Spool(ctx, v.options.Daemon.Store, fleets, nil)
	}
	v.archives.mu.Lock() // prevents histories from being closed
	defer v.archives.mu.Unlock()
	histories, err := v.histories()
	if err != nil {
		return nil, err
	}
	return state.Spool(ctx, v.options.Daemon.Store, fleets, histories)
}

// archives contains the open histories of fleets that this member owned earlier. A fleet's archive is
// closed before its daemon starts.
type archives struct {
	mu   sync.Mutex
	open map[string]state.Store
}

// archived returns the history that this member recorded for fleets that it no longer runs. It has
// the same parameters as [state.Store.History].
func (c *Cluster) archived(ctx context.Context, name string, from, to time.Time, limit int) ([]state.Entry, error) {
	c.archives.mu.Lock()
	defer c.archives.mu.Unlock()
	var all []state.Entry
	for _, fleet := range c.Fleets() {
		if c.runOf(fleet) != nil || name != "" && c.FleetOf(name) != fleet {
			continue
		}
		archive, err := c.archive(fleet)
		if err != nil {
			return nil, err
		}
		if archive == nil {
			continue
		}
		entries, err := archive.History(ctx, name, from, to, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// archive returns the stored history of a fleet that does not run here, or nil if this member
// never ran it. The caller must hold archives.mu.
func (c *Cluster) archive(fleet string) (state.Store, error) {
	archive := c.archives.open[fleet]
	if _, err := os.Stat(c.dir(fleet)); archive == nil && err == nil {
		if archive, err = state.Open(c.dir(fleet), state.Options{}); err != nil {
			return nil, fmt.Errorf("open the history of fleet %q: %w", fleet, err)
		}
		c.archives.open[fleet] = archive
	}
	return archive, nil
}

// histories returns all stores that contain history recorded by this member. The caller must hold
// archiving.
func (c *Cluster) histories() ([]state.Store, error) {
	all := []state.Store{c.options.Daemon.Store}
	for _, fleet := range c.Fleets() {
		var store state.Store
		if r := c.runOf(fleet); r != nil {
			r.mu.Lock()
			store = r.store
			r.mu.Unlock()
		} else {
			archive, err := c.archive(fleet)
			if err != nil {
				return nil, err
			}
			store = archive
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
