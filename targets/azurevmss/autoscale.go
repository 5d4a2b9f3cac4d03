package azurevmss

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// autoscaleAge is how old what is known of the platform's own autoscalers may be.
const autoscaleAge = 15 * time.Second

// autoscalers are the autoscale settings of Azure Monitor that are in force. They
// are safe for concurrent use; the zero value knows of none.
type autoscalers struct {
	mu    sync.Mutex
	lists map[scope]autoscaleList
}

// autoscaleList is what the last lists of a scope said.
type autoscaleList struct {
	// names are those of the settings, by the sets they change.
	names map[key]string
	read  time.Time
	// tried is when they were last to be listed, err why they could not be.
	tried time.Time
	err   error
}

// autoscaleSetting is what a list says of a setting.
type autoscaleSetting struct {
	Name       string `json:"name"`
	Properties struct {
		Enabled *bool  `json:"enabled"`
		Target  string `json:"targetResourceUri"`
	} `json:"properties"`
}

// refresh lists the settings of some scopes, where what is known of them is old.
// Where they cannot be listed what was known stays, and failure returns why.
func (a *autoscalers) refresh(ctx context.Context, f *Fleet, scopes []scope) {
	for _, at := range scopes {
		a.mu.Lock()
		fresh := time.Since(a.lists[at].tried) < autoscaleAge
		a.mu.Unlock()
		if fresh {
			continue
		}
		names := map[key]string{}
		path := at.path(f.config.Subscription) + "/providers/Microsoft.Insights/autoscalesettings"
		err := list(ctx, f, opAutoscale, path, autoscaleVersion, func(setting autoscaleSetting) {
			// The API's default of a setting that does not say is that it is not.
			if k, ok := keyOfID(setting.Properties.Target); ok && value(setting.Properties.Enabled) {
				names[k] = setting.Name
			}
		})
		a.record(at, names, err, time.Now())
	}
}

// record remembers what a list said, or why it said nothing.
func (a *autoscalers) record(at scope, names map[key]string, err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lists == nil {
		a.lists = map[scope]autoscaleList{}
	}
	next := a.lists[at]
	switch {
	case err == nil:
		next = autoscaleList{names: names, read: now, tried: now}
	case errors.Is(err, targets.ErrForbidden), errors.Is(err, targets.ErrTargetNotFound):
		next.err, next.tried = err, now // which lasts, while other trouble is soon over
	default:
		next.err = err
	}
	if next.err != nil {
		next.err = fmt.Errorf("list autoscale settings of %v: %w", at, next.err)
	}
	a.lists[at] = next
}

// hold returns why a set is left to its autoscale setting; nil when it has none.
func (a *autoscalers) hold(k key) *policy.Hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := a.lists[""]
	if own := a.lists[scope(k.group)]; own.read.After(newest.read) {
		newest = own
	}
	name, ok := newest.names[k]
	if !ok {
		return nil
	}
	return &policy.Hold{
		Reason:  NativeAutoscaler,
		Message: fmt.Sprintf("autoscale setting %q of Azure Monitor is enabled for scale set %q; disable it for hpad to change the count", name, k),
	}
}

// failure returns why it is not known which sets have autoscale settings; nil when it is.
func (a *autoscalers) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(a.lists)) {
		if err := a.lists[at].err; err != nil {
			return err
		}
	}
	return nil
}
