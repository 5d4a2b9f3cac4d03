package azurevmss

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
)

// autoscaleAge is the age from which autoscale settings are listed again.
const autoscaleAge = 15 * time.Second

// autoscalers are the enabled autoscale settings of Azure Monitor.
type autoscalers struct {
	scopes []scope
	// names are the settings by the sets that they change.
	names map[key]string
	// err is the reason that the settings of a scope are not known.
	err error
}

// autoscaleSetting is a setting in a list.
type autoscaleSetting struct {
	Name       string `json:"name"`
	Properties struct {
		Enabled bool   `json:"enabled"`
		Target  string `json:"targetResourceUri"`
	} `json:"properties"`
}

// readAutoscalers lists the settings of some scopes if the known ones are old, or of
// other scopes. The settings of a scope that cannot be listed stay as they were.
func (f *Fleet) readAutoscalers(ctx context.Context, scopes []scope) {
	last, _ := f.autoscalers.Value()
	known := func(at scope) bool { return slices.Contains(last.scopes, at) || slices.Contains(last.scopes, "") }
	if slices.ContainsFunc(scopes, func(at scope) bool { return !known(at) }) {
		f.autoscalers.Expire()
	}
	f.autoscalers.Refresh(autoscaleAge, func() (autoscalers, error) {
		next := autoscalers{scopes: scopes, names: map[key]string{}}
		maps.Copy(next.names, last.names)
		for _, at := range scopes {
			names := map[key]string{}
			path := at.path(f.config.Subscription) + "/providers/Microsoft.Insights/autoscalesettings"
			err := list(ctx, f, opAutoscale, path, autoscaleVersion, func(setting *autoscaleSetting) {
				if k, ok := keyOfID(setting.Properties.Target); ok && setting.Properties.Enabled { // which is false by default
					names[k] = setting.Name
				}
			})
			if err != nil {
				next.err = fmt.Errorf("list autoscale settings of %v: %w", at, err)
				continue
			}
			maps.DeleteFunc(next.names, func(k key, _ string) bool { return at == "" || scope(k.group) == at })
			maps.Copy(next.names, names)
		}
		return next, nil
	})
}

// hold returns the hold of a set with an enabled setting; nil for others.
func (a autoscalers) hold(k key) *policy.Hold {
	name, ok := a.names[k]
	if !ok {
		return nil
	}
	return &policy.Hold{
		Reason:  NativeAutoscaler,
		Message: fmt.Sprintf("autoscale setting %q of Azure Monitor is enabled for scale set %q; disable it for hpad to change the count", name, k),
	}
}
