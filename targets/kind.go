package targets

import (
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// Kind is a kind of fleet. Its package declares it as the variable Kind, and package daemon/kinds
// lists it.
type Kind struct {
	// Name is the value of the key "kind" in a fleet's table.
	Name string
	// Config returns an empty fleet table, Target an empty target table: pointers to structs with
	// toml tags.
	Config func() Config
	Target func() Target
	// Reference is the syntax of targets on the command line.
	Reference Reference
	// Samples reports whether fleets are Samplers, Removes whether they are Removers.
	Samples, Removes bool
	// Guarded reports whether hpad by default distrusts a reading in which most instances are
	// missing.
	Guarded bool
	// Unique reports whether instance ids are globally unique.
	Unique bool
	// Hosted reports whether instances are processes of hpad, which only the running hpad knows.
	Hosted bool
	// InstanceLabel is the label that usually has the instance's id in metrics; may be empty.
	InstanceLabel string
	// LabelPlace describes where to edit the labels of a target; empty if fleets are no
	// Discoverers.
	LabelPlace string
	// Failing are the conditions of targets whose instances cannot start or crash, for alerts.
	Failing []policy.ConditionType
	// Without is the reason why the kind cannot be in a situation of the contract suite, by
	// situation (see targettest.Table).
	Without map[string]string
}

// Config is the table of one fleet.
type Config interface {
	// SetDefaults sets missing values to their defaults.
	SetDefaults()
	// Validate returns all errors of a table with defaults, with paths relative to it.
	Validate() []settings.FieldError
	// Build builds the fleet of a valid table, without an effect outside of the process.
	Build(name string, env Env) (Fleet, error)
}

// Target is the part of an autoscaler's target table for one kind of fleet.
type Target interface {
	// Validate returns all errors, with paths relative to the table.
	Validate() []settings.FieldError
	// Name returns the target's canonical name, for a Ref.
	Name() string
}

// Localer is a Config whose fleets may be on hpad's own host, where no other host can read them:
// Local reports whether this fleet is.
type Localer interface{ Local() bool }

// Local reports whether a fleet is on hpad's own host.
func Local(c Config) bool {
	local, may := c.(Localer)
	return may && local.Local()
}

// TargetChecker is a Config that knows all targets. CheckTarget returns the error of a target
// name; "" if the target exists.
type TargetChecker interface {
	CheckTarget(name string) string
}

// TargetBounder is a Config that limits the instances of a target. MostReplicas returns the limit
// and its cause; 0 if there is no limit.
type TargetBounder interface {
	MostReplicas(target string) (most int32, of string)
}

// Requester is a Config that contains the requests of instances. Requests reports whether a
// target has a request of a resource; at is the path below the fleet's table where the request is
// configured, or "".
type Requester interface {
	Requests(target, resource string) (stated bool, at string)
}

// TargetDefaulter is a Config with defaults for targets of its kind.
type TargetDefaulter interface {
	DefaultTarget(target Target)
}

// LabelReader is a Config of a kind whose fleets are Discoverers. Each embeds a [Discovery].
type LabelReader interface {
	Discovers() bool
	LimitsLabels() LabelLimits
}

// Limited is a Config with a timeout of calls. A read of targets, which may take several calls,
// is allowed at least that time.
type Limited interface {
	CallTimeout() time.Duration
}

// EngineNamer is a Config of a kind of which several fleets may reach the same targets. Engine
// returns a value that is equal only for fleets of the same platform; different values prove
// nothing.
type EngineNamer interface {
	Engine() string
}

// Discovery is the settings for autoscalers in labels. Configurations of Discoverers embed it
// without a tag.
type Discovery struct {
	// Discover makes autoscalers of targets with labels that begin with "hpad.": services, and
	// task groups with such meta.
	Discover bool `toml:"discover"`
	// LabelLimits limit the autoscalers in labels.
	LabelLimits LabelLimits `toml:"label_limits"`
}

// Discovers reports whether targets with labels become autoscalers.
func (d *Discovery) Discovers() bool { return d.Discover }

// LimitsLabels returns the limits of autoscalers in labels.
func (d *Discovery) LimitsLabels() LabelLimits { return d.LabelLimits }

// LabelLimits limit the autoscalers in labels, because anyone who may deploy a target can set its
// labels. The zero value of each limit is its default.
type LabelLimits struct {
	// Autoscalers limits the autoscalers in labels of the fleet; existing autoscalers are kept.
	// At least 1.
	Autoscalers int `toml:"autoscalers" default:"1000" min:"1"`
	// Metrics limits the metrics of an autoscaler; at least 1.
	Metrics int `toml:"metrics" default:"10" min:"1"`
	// MaxReplicas limits max_replicas; at least 1.
	MaxReplicas int32 `toml:"max_replicas" default:"1000" min:"1"`
	// SyncPeriod is the minimum of sync_period in labels; at least 1s.
	SyncPeriod time.Duration `toml:"sync_period" default:"5s" min:"1s" must:"at least \"1s\""`
	// Query limits the length of a query in bytes; at least 1.
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

// SetDefaults sets missing values to their defaults.
func (l *LabelLimits) SetDefaults() { settings.SetDefaults(l) }
