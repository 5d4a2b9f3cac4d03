package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"go.uber.org/zap"
)

const (
	// updateInterval is the interval between updates of the membership and of the fleets.
	updateInterval = time.Second
	// The time limit for a call to the coordinator is TTL/callShare, a third of the lease.
	callShare = 3
	// An expiring lease is reported as a problem when only TTL/lapseShare, a quarter of the lease,
	// remains. With timely renewals, more than a quarter always remains.
	lapseShare = 4
)

// update joins the cluster, reads the owners, and starts and ends runs. The next update repeats
// failed steps.
func (c *Cluster) update(ctx context.Context) {
	var view View
	err := c.identify(ctx)
	if err == nil {
		c.join(ctx)
		view, err = c.viewNow(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	problem := err
	if err == nil {
		problem = c.lapsing()
	}
	if news, fields := c.unreached.Set(problem); news && problem != nil {
		c.log.Error("cluster store unreachable, scaling stops when the lease ends",
			append(fields, zap.NamedError("err", problem))...)
	} else if news {
		c.log.Info("cluster store reachable again", fields...)
	}
	if err != nil {
		return
	}
	c.mu.RLock()
	session := c.session
	c.mu.RUnlock()
	if session != nil {
		c.settle(ctx, session, view)
	}
}

// lapsing returns an error if the lease has ended or is about to end although calls to the
// coordinator succeed.
func (c *Cluster) lapsing() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.session == nil || time.Until(c.session.Expires()) > c.options.TTL/lapseShare {
		return nil
	}
	return fmt.Errorf("the store responds but does not renew the lease of %s; see its own log", c.options.TTL)
}

func (c *Cluster) viewNow(ctx context.Context) (View, error) {
	call, cancel := c.call(ctx)
	defer cancel()
	started := time.Now()
	view, err := c.options.Coordinator.View(call)
	if err == nil {
		c.mu.Lock()
		if last := view.Fleets[pauseMark].Configuration; c.viewed.IsZero() || last != c.view.Fleets[pauseMark].Configuration {
			unread := time.Duration(math.MaxInt64)
			if !c.viewed.IsZero() {
				unread = time.Since(c.viewed)
			}
			c.command, c.undecoded = commandIn(view, unread)
		}
		c.view, c.viewed = view, time.Now()
		for fleet, o := range view.Fleets {
			if o.Owner != "" {
				c.owned[fleet] = started
			}
		}
		c.mu.Unlock()
		select {
		case c.commands.viewed <- struct{}{}:
		default:
		}
	}
	return view, err
}

func (c *Cluster) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.options.TTL/callShare)
}

// join adds this member to the cluster if it has no session, and publishes its fleets.
func (c *Cluster) join(ctx context.Context) {
	member := c.described()
	c.mu.RLock()
	session := c.session
	c.mu.RUnlock()
	if session != nil && isClosed(session.Ended()) {
		c.log.Warn("lease expired, ownership released")
		session = nil
	}
	call, cancel := c.call(ctx)
	defer cancel()
	joins := session == nil
	var err error
	switch {
	case joins:
		session, err = c.options.Coordinator.Join(call, member, c.options.TTL)
		if errors.Is(err, ErrTaken) {
			err = fmt.Errorf("a member named %q already exists (another hpad, or this one before its restart), and its lease of %s has not ended",
				member.Name, c.options.TTL)
		}
	case !reflect.DeepEqual(member, c.published):
		err = session.Update(call, member)
	}
	if ctx.Err() != nil && err != nil {
		return
	}
	if news, fields := c.unjoined.Set(err); news && err != nil {
		c.log.Warn("joining the cluster failed", append(fields, zap.NamedError("err", err))...)
	} else if news {
		c.log.Info("joined the cluster", append(fields, zap.String("member", member.Name))...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session = session; err != nil {
		if session == nil || isClosed(session.Ended()) {
			c.session = nil
		}
		return
	}
	if joins && c.published.Name != "" {
		c.rejoined = time.Now()
	}
	c.published = member
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}
