package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
)

// Listeners are where a daemon is served; nil ones are left out.
type Listeners struct {
	// TCP is read-only, Socket allows everything.
	TCP, Socket net.Listener
}

// Listen opens the listeners that the configuration names.
func Listen(ctx context.Context, c config.Daemon) (Listeners, error) {
	var l Listeners
	var err error
	if c.Socket != "" {
		if l.Socket, err = api.ListenSocket(c.Socket); err != nil {
			return Listeners{}, err
		}
	}
	if c.Listen != "" {
		if l.TCP, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Listen); err != nil {
			return Listeners{}, errors.Join(fmt.Errorf("daemon.listen = %q: %w", c.Listen, err), l.Close())
		}
	}
	return l, nil
}

// Close closes the listeners that nobody serves.
func (l Listeners) Close() error {
	var errs []error
	for _, listener := range []net.Listener{l.TCP, l.Socket} {
		if listener != nil {
			errs = append(errs, listener.Close())
		}
	}
	return errors.Join(errs...)
}

// shutdownWait bounds how long requests under way may take at the end.
const shutdownWait = 3 * time.Second

// Serve serves the daemon's API on the listeners until ctx ends, and closes
// them. The error says which listener failed.
func (d *Daemon) Serve(ctx context.Context, l Listeners, gatherer prometheus.Gatherer) error {
	group, ctx := errgroup.WithContext(ctx)
	serve := func(listener net.Listener, access api.Access) {
		if listener == nil {
			return
		}
		errorLog, err := zap.NewStdLogAt(d.log.Named("http"), zap.WarnLevel)
		if err != nil {
			errorLog = nil // the standard logger
		}
		server := api.NewServer(api.NewHandler(d, gatherer, access), errorLog)
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
			defer cancel()
			if err := server.Shutdown(wait); err != nil {
				return server.Close() // a client that takes its time is no failure of ours
			}
			return nil
		})
	}
	serve(l.TCP, api.ReadOnly)
	serve(l.Socket, api.Full)
	return group.Wait()
}
