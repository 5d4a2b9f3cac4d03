package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/files"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/settings/template"
	"github.com/hpad/hpad/targets/proc"
)

const (
	// interval is the time between two readings, and the minimum time between two runs of a
	// command.
	interval = time.Second
	// readTimeout limits one reading.
	readTimeout = 10 * time.Second
	// maxBackoff is the maximum time between two attempts to publish the same endpoints.
	maxBackoff = time.Minute
	// patience is how long failing attempts delay the removal of instances. After it,
	// scaling continues although the proxy may still send requests to them.
	patience = 10 * time.Second
	// maxOutput is the maximum length of the output of a failed command in the log, in bytes.
	maxOutput = 4096
)

// publisher publishes the endpoints of one target. Its goroutine owns the fields from content on.
type publisher struct {
	Target
	log      *zap.Logger
	read     read
	template *template.Template
	// withdrawals receives a channel for each call of Withdraw, which is closed when the endpoints
	// are published.
	withdrawals chan chan struct{}
	cancel      context.CancelFunc
	ended       chan struct{}
	problem     problem.Problem
	// failing is the start of the first of consecutive failed attempts, or nil.
	failing atomic.Pointer[time.Time]
	// withdrawing is the number of Withdraw calls in progress.
	withdrawing atomic.Int32

	// content is the file content of the last attempt, and published reports whether the attempt
	// succeeded.
	content   string
	attempted bool
	published bool
	ran       time.Time
	retry     time.Time
	backoff   time.Duration
}

// run publishes the endpoints until ctx ends. Each change of the ready instances is published
// within a second, unless the previous command is still active.
func (p *publisher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var waiting []chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-p.withdrawals:
			waiting = append(waiting, done)
			if time.Since(p.ran) < interval {
				continue // combine the calls until the timer expires
			}
		case <-timer.C:
		}
		began := time.Now()
		if p.update(ctx, len(waiting) > 0) {
			p.failing.Store(nil)
		} else {
			p.failing.CompareAndSwap(nil, &began)
		}
		if p.failing.Load() == nil || p.isFailing() {
			for _, done := range waiting {
				close(done)
			}
			waiting = nil
		}
		timer.Reset(interval)
	}
}

// isFailing reports whether attempts have failed for longer than patience, so that removals do not
// wait for them.
func (p *publisher) isFailing() bool {
	began := p.failing.Load()
	return began != nil && time.Since(*began) >= patience
}

// update reads the target and publishes its endpoints if they have changed. It reports whether the
// endpoints of this reading are published. A failed reading changes nothing.
func (p *publisher) update(ctx context.Context, fresh bool) bool {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reading, err := p.read(limited, &p.Target, fresh)
	if err != nil || ctx.Err() != nil {
		return false
	}
	ready, err := Ready(&reading, p.Config.Port)
	var content string
	if err == nil {
		content, err = p.template.Execute(&data{Autoscaler: p.Autoscaler, Fleet: p.Ref.Fleet, Target: p.Ref.Name, Instances: ready})
	}
	if err == nil {
		same := p.attempted && content == p.content
		if same && p.published {
			p.problem.Set(nil)
			return true
		}
		if same && time.Now().Before(p.retry) {
			return false
		}
		if !same {
			p.backoff = 0
		}
		p.content, p.attempted = content, true
		err = p.publish(ctx)
		p.published = err == nil
	}
	if ctx.Err() != nil {
		return false
	}
	p.report(err, len(ready))
	return err == nil
}

// report logs the result of an attempt and sets the time of the next one.
func (p *publisher) report(err error, ready int) {
	if err == nil {
		p.backoff = 0
		p.log.Info("endpoints published", zap.String("file", p.Config.File), zap.Int("instances", ready))
	} else {
		p.backoff = min(max(2*p.backoff, interval), maxBackoff)
		p.retry = time.Now().Add(p.backoff)
		err = errors.New(redact.Text(err.Error()))
	}
	if news, fields := p.problem.Set(err); news && err != nil {
		p.log.Warn("cannot publish endpoints", append(fields, zap.NamedError("err", err))...)
	}
}

// publish writes the file and runs the command. A marker file next to it exists until the command
// succeeds. If hpad restarts before that, the marker causes another run.
func (p *publisher) publish(ctx context.Context) error {
	file, err := files.Resolve(p.Config.File)
	if err != nil {
		return fmt.Errorf("write the endpoints: %w", err)
	}
	pending := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".pending")
	before, err := os.ReadFile(file)
	changed := err != nil || string(before) != p.content
	if changed && len(p.Config.Command) > 0 {
		if err := os.WriteFile(pending, nil, 0o600); err != nil {
			return fmt.Errorf("write the endpoints: %w", err)
		}
	}
	if changed {
		if _, err := files.Replace(file, newMode, func(to io.Writer) error {
			_, err := io.WriteString(to, p.content)
			return err
		}); err != nil {
			return fmt.Errorf("write the endpoints: %w", err)
		}
	}
	if len(p.Config.Command) == 0 {
		return nil
	}
	if _, err := os.Lstat(pending); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := p.command(ctx); err != nil {
		return err
	}
	return os.Remove(pending)
}

func (p *publisher) command(ctx context.Context) error {
	p.ran = time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.Config.Timeout)
	defer cancel()
	output, err := proc.Run(ctx, p.Config.Command, []string{"HPAD_FILE=" + p.Config.File, "HPAD_TARGET=" + p.Ref.String()}, maxOutput)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("killed after the timeout of %v", p.Config.Timeout)
	}
	if err != nil && output != "" {
		err = fmt.Errorf("%w: %s", err, output)
	}
	if err != nil {
		return fmt.Errorf("run %q after a change of the endpoints: %w", p.Config.Command[0], err)
	}
	return nil
}

// newMode is the mode of a new file, which programs of all users may read.
const newMode = 0o644
