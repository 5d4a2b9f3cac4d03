// Package discovery tracks the labels of targets and adds the autoscalers that labels define to the
// configuration from files.
package discovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// Fleet discovers targets by their labels.
type Fleet struct {
	Name string
	// Discover discovers the targets. It returns when ctx ends or its own timeout expires.
	Discover func(ctx context.Context) ([]targets.Discovered, error)
	Problem  *problem.Problem
}

// Found is the result for one fleet.
type Found struct {
	Targets []targets.Discovered
	// Unread reports whether the named target could not be read. It is nil if all targets were
	// read.
	Unread func(name string) bool
}

// Discover queries fleets concurrently and returns their results by name. It omits fleets whose
// query failed and logs new errors. It returns nil if ctx ends.
func Discover(ctx context.Context, log *zap.Logger, fleets []Fleet) map[string]Found {
	var pending guard.Group
	results := make([]*Found, len(fleets))
	for i, fleet := range fleets {
		pending.Go(func() error {
			results[i] = fleet.discover(ctx, log)
			return nil
		})
	}
	_ = pending.Wait()
	if ctx.Err() != nil {
		return nil
	}
	found := map[string]Found{}
	for i, result := range results {
		if result != nil {
			found[fleets[i].Name] = *result
		}
	}
	return found
}

// discover queries one fleet. It returns nil if the query failed.
func (f *Fleet) discover(ctx context.Context, log *zap.Logger) *Found {
	var found Found
	var err error
	if found.Targets, err = f.Discover(ctx); ctx.Err() != nil {
		return nil
	}
	f.report(log, err)
	if partial, ok := errors.AsType[*targets.PartialDiscoveryError](err); ok {
		found.Unread, err = partial.Unread, nil
	}
	if err != nil {
		return nil
	}
	found.Targets = Bounded(found.Targets)
	return &found
}

// Bounded limits the lengths of target names and problems, because they are stored and shown in
// many places. A target with a name that is too long gets a short name and a problem instead of
// labels. If its labels do not enable an autoscaler, Bounded omits the target.
func Bounded(found []targets.Discovered) []targets.Discovered {
	bounded := make([]targets.Discovered, 0, len(found))
	for _, target := range found {
		if size := len(target.Name); size > targets.MaxTargetName {
			if target.Labels[targets.EnableLabel] != "true" {
				continue
			}
			sum := sha256.Sum256([]byte(target.Name))
			target = targets.Discovered{
				Name:    fmt.Sprintf("%s…%x", strings.ToValidUTF8(target.Name[:64], ""), sum[:4]),
				Problem: fmt.Sprintf("its name has %d bytes; the limit for targets with labels is %d", size, targets.MaxTargetName),
			}
		}
		target.Problem = problem.Shorten(target.Problem)
		bounded = append(bounded, target)
	}
	return bounded
}

// report stores the error of a fleet and logs changes.
func (f *Fleet) report(log *zap.Logger, err error) {
	if err != nil {
		err = fmt.Errorf("discover targets by their labels: %w", err)
	}
	news, fields := f.Problem.Set(err)
	fields = append([]zap.Field{zap.String("fleet", f.Name)}, fields...)
	switch {
	case news && err != nil:
		log.Warn("target discovery failed", append(fields, zap.NamedError("err", err))...)
	case news:
		log.Info("target discovery recovered", fields...)
	}
	if news {
		problem.LogPanic(log, "fleet", f.Name, err)
	}
}
