package targets

import (
	"time"

	"github.com/hpad/hpad/settings"
)

// Discovery is what a fleet is told of labels that ask for autoscalers. Configurations of
// kinds that are Discoverers embed it without a tag.
type Discovery struct {
	// Discover makes targets with labels that begin with "hpad." autoscalers: services,
	// and task groups with such meta.
	Discover bool `toml:"discover"`
	// LabelLimits bound what the labels may ask for.
	LabelLimits LabelLimits `toml:"label_limits"`
}

// Discovers reports whether targets with labels become autoscalers.
func (d *Discovery) Discovers() bool { return d.Discover }

// LimitsLabels returns what labels may ask for.
func (d *Discovery) LimitsLabels() LabelLimits { return d.LabelLimits }

// LabelLimits bound what labels may ask for: whoever may deploy a target writes
// them. The zero value of each is its default.
type LabelLimits struct {
	// Autoscalers is how many targets of the fleet may have one by their labels; those
	// that have one keep it. At least 1.
	Autoscalers int `toml:"autoscalers" default:"1000" min:"1"`
	// Metrics is how many metrics one may have; at least 1.
	Metrics int `toml:"metrics" default:"10" min:"1"`
	// MaxReplicas is the highest max_replicas; at least 1.
	MaxReplicas int32 `toml:"max_replicas" default:"1000" min:"1"`
	// SyncPeriod is the shortest sync_period, where the labels give one; at least 1s.
	SyncPeriod time.Duration `toml:"sync_period" default:"5s" min:"1s" must:"at least \"1s\""`
	// Query is how many bytes a query may have; at least 1.
	Query int `toml:"query" default:"4096" min:"1"`
}

// Limits of the text of a target with labels, in bytes. The text becomes part of state
// records, metrics, logs and notifications, which have limits of their own.
const (
	MaxTargetName = 512
	MaxLabelName  = 256
	// MaxLabelValue does not apply to queries.
	MaxLabelValue = 1024
	// maxLabels applies to the names and values of all labels, in addition to the queries
	// that LabelLimits allow.
	maxLabels = 16 << 10
)

// Total returns the limit of all labels of a target in bytes.
func (l *LabelLimits) Total() int { return maxLabels + l.Metrics*l.Query }

// SetDefaults fills in what was not given.
func (l *LabelLimits) SetDefaults() { settings.SetDefaults(l) }
