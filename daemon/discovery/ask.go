// Package discovery keeps what targets ask for by their labels, and makes autoscalers
// of it, beside those of the configuration's files.
package discovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/targets"
)

// Fleet is a fleet that can be asked for the targets that have labels.
type Fleet struct {
	Name string
	// Ask asks it. It returns when ctx ends, or when the call's own time is over.
	Ask func(ctx context.Context) ([]targets.Discovered, error)
	// Problem keeps why it cannot be asked.
	Problem *trouble.Problem
}

// Found is what a fleet discovered.
type Found struct {
	Targets []targets.Discovered
	// Unread reports whether nothing is known of the target of a name; nil means that
	// all is known.
	Unread func(name string) bool
}

// Ask asks fleets, all at once, and returns what each of them found, by name. One
// that could not be asked is missing, which is logged when it is news. Nothing is
// found when ctx ends.
func Ask(ctx context.Context, log *zap.Logger, fleets []Fleet) map[string]Found {
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]Found{}
	for _, fleet := range fleets {
		asking.Go(func() {
			var found Found
			var err error
			if found.Targets, err = fleet.Ask(ctx); ctx.Err() != nil {
				return
			}
			fleet.report(log, err)
			if partial, ok := errors.AsType[*targets.PartialDiscoveryError](err); ok {
				found.Unread, err = partial.Unread, nil
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				found.Targets = Bounded(found.Targets)
				answers[fleet.Name] = found
			}
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return answers
}

// Bounded limits the names and problems of targets, because they are stored and shown in many
// places. A target with a name that is too long gets a short name, and a problem instead of
// labels. It is left out if its labels do not enable an autoscaler.
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
				Problem: fmt.Sprintf("its name has %d bytes; the name of a target with labels may have %d", size, targets.MaxTargetName),
			}
		}
		target.Problem = trouble.Shorten(target.Problem)
		bounded = append(bounded, target)
	}
	return bounded
}

// report keeps whether a fleet can discover, and logs when that changes.
func (f *Fleet) report(log *zap.Logger, err error) {
	if err != nil {
		err = fmt.Errorf("discover targets by their labels: %w", err)
	}
	news, fields := f.Problem.Set(err)
	fields = append([]zap.Field{zap.String("fleet", f.Name)}, fields...)
	switch {
	case news && err != nil:
		log.Warn("targets cannot be discovered; those known stay", append(fields, zap.NamedError("err", err))...)
	case news:
		log.Info("targets can be discovered again", fields...)
	}
	if news {
		trouble.LogPanic(log, "fleet", f.Name, err)
	}
}
