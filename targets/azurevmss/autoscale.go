package azurevmss

import (
	"context"
	"errors"
	"fmt"
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
	mu sync.Mutex
	// names are those of the settings, by the sets they change.
	names  map[key]string
	scopes []scope
	read   time.Time
	err    error
}

// autoscaleSetting is what a list says of a setting.
type autoscaleSetting struct {
	Name       string `json:"name"`
	Properties struct {
		Enabled *bool  `json:"enabled"`
		Target  string `json:"targetResourceUri"`
	} `json:"properties"`
}

// refresh lists the settings, where what is known of them is old. Where they cannot
// be listed what was known stays, and problem says so.
func (a *autoscalers) refresh(ctx context.Context, f *Fleet, scopes []scope) {
	a.mu.Lock()
	fresh := time.Since(a.read) < autoscaleAge && slices.Equal(a.scopes, scopes)
	a.mu.Unlock()
	if fresh {
		return
	}
	names := map[key]string{}
	var failed error
	for _, at := range scopes {
		path := at.path(f.config.Subscription) + "/providers/Microsoft.Insights/autoscalesettings"
		err := list(ctx, f, opAutoscale, path, autoscaleVersion, func(setting autoscaleSetting) {
			// The API's default of a setting that does not say is that it is not.
			if k, ok := keyOfID(setting.Properties.Target); ok && value(setting.Properties.Enabled) {
				names[k] = setting.Name
			}
		})
		if err != nil {
			failed = fmt.Errorf("list autoscale settings of %v: %w", at, err)
			break
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = failed
	if failed == nil {
		a.names = names
	}
	if failed == nil || errors.Is(failed, targets.ErrForbidden) || errors.Is(failed, targets.ErrTargetNotFound) {
		a.read, a.scopes = time.Now(), scopes // a refusal lasts, other trouble is soon over
	}
}

// hold answers why a set is left to its autoscale setting; nil when it has none.
func (a *autoscalers) hold(k key) *policy.Hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, ok := a.names[k]
	if !ok {
		return nil
	}
	return &policy.Hold{
		Reason:  NativeAutoscaler,
		Message: fmt.Sprintf("autoscale setting %q of Azure Monitor is enabled for scale set %q; disable it for hpad to change the count", name, k),
	}
}

// problem says why it is not known which sets have autoscale settings; "" when it is.
func (a *autoscalers) problem() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		return ""
	}
	return "it is not known which scale sets have an autoscale setting of their own (Microsoft.Insights/autoscaleSettings/read): " + a.err.Error()
}
