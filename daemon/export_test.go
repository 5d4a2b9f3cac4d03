package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/round"
)

// Generation returns the active generation.
func (d *Daemon) Generation() *round.Generation { return d.scheduler.Current() }

// File returns the configuration that was read from the files, without discovered autoscalers.
func (d *Daemon) File() *config.Config { return d.labels.File() }

// RoundsFor starts the daemon without its scheduler and returns a function that runs one round.
func (d *Daemon) RoundsFor(b testing.TB) func(now time.Time) {
	ctx, cancel := context.WithCancel(b.Context())
	d.env.RunContext, d.env.WriteContext = ctx, ctx
	first, err := d.load(ctx)
	if err != nil {
		b.Fatal(err)
	}
	recording := make(chan struct{})
	go func() {
		defer close(recording)
		d.env.Recorder.Run(ctx)
	}()
	first.added = nil
	d.scheduler.Start(d.swap(first), 5)
	b.Cleanup(func() {
		cancel()
		d.scheduler.Finish()
		<-recording
	})
	d.prune()
	return func(now time.Time) { d.scheduler.RunRound(now, 15*time.Second) }
}
