package swarm

import "github.com/hpad/hpad/settings"

// Target is the part of an autoscaler's target table that a swarm fleet reads.
type Target struct {
	// Service is the name of a replicated service: of one in a stack, with the
	// stack's name before it, as "shop_web".
	Service string `toml:"service"`
}

// Validate returns every mistake of the target.
func (t *Target) Validate() []settings.FieldError {
	if t.Service == "" {
		return []settings.FieldError{{Field: "service", Detail: `is required: the name of a service, as "shop_web" for the service web of the stack shop`}}
	}
	return nil
}

// Name returns the target's name in a targets.Ref: the service's.
func (t *Target) Name() string { return t.Service }
