package targets

import (
	"cmp"
	"strconv"
	"time"

	"github.com/hpad/hpad/settings"
)

// Defaults of LabelLimits.
const (
	DefaultLabelAutoscalers = 1000
	DefaultLabelMetrics     = 10
	DefaultLabelMaxReplicas = 1000
	DefaultLabelSyncPeriod  = 5 * time.Second
	DefaultLabelQuery       = 4096
)

// LabelLimits bound what labels may ask for: whoever may deploy a target writes
// them. The zero value of each is its default.
type LabelLimits struct {
	// Autoscalers is how many targets of the fleet may have one by their labels; those
	// that have one keep it. At least 1.
	Autoscalers int `toml:"autoscalers"`
	// Metrics is how many metrics one may have; at least 1.
	Metrics int `toml:"metrics"`
	// MaxReplicas is the highest max_replicas; at least 1.
	MaxReplicas int32 `toml:"max_replicas"`
	// SyncPeriod is the shortest sync_period, where the labels give one; at least 1s.
	SyncPeriod time.Duration `toml:"sync_period"`
	// Query is how many bytes a query may have; at least 1.
	Query int `toml:"query"`
}

// SetDefaults fills in what was not given.
func (l *LabelLimits) SetDefaults() {
	l.Autoscalers = cmp.Or(l.Autoscalers, DefaultLabelAutoscalers)
	l.Metrics = cmp.Or(l.Metrics, DefaultLabelMetrics)
	l.MaxReplicas = cmp.Or(l.MaxReplicas, DefaultLabelMaxReplicas)
	l.SyncPeriod = cmp.Or(l.SyncPeriod, DefaultLabelSyncPeriod)
	l.Query = cmp.Or(l.Query, DefaultLabelQuery)
}

// Validate returns every mistake of defaulted limits, with paths below the fleet's
// table.
func (l *LabelLimits) Validate() []settings.FieldError {
	var mistakes []settings.FieldError
	for _, limit := range []struct {
		key   string
		value int
	}{
		{"autoscalers", l.Autoscalers}, {"metrics", l.Metrics}, {"max_replicas", int(l.MaxReplicas)}, {"query", l.Query},
	} {
		if limit.value < 1 {
			mistakes = append(mistakes, settings.FieldError{Field: "label_limits." + limit.key, Value: strconv.Itoa(limit.value), Detail: "must be at least 1"})
		}
	}
	if l.SyncPeriod < time.Second {
		mistakes = append(mistakes, settings.FieldError{
			Field: "label_limits.sync_period", Value: strconv.Quote(l.SyncPeriod.String()), Detail: `must be at least "1s"`,
		})
	}
	return mistakes
}
