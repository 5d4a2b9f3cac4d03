package targets

import (
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// Kind is a kind of fleet, declared by its package as the variable Kind and listed
// in package daemon/kinds.
type Kind struct {
	// Name is what a fleet of the configuration has as its kind.
	Name string
	// Config returns the empty table of a fleet, Target the empty table of a target
	// of one: pointers to structs with toml tags.
	Config func() Config
	Target func() Target
	// Reference is how targets are written on the command line.
	Reference Reference
	// Samples is set where fleets are Samplers, Removes where they are Removers.
	Samples, Removes bool
	// Guarded is set where a reading by which a target collapses is doubted unless the
	// configuration says otherwise.
	Guarded bool
	// Unique is set where no two instances anywhere have the same id.
	Unique bool
	// Hosted is set where instances are processes of hpad's own, of which only the hpad that
	// runs knows.
	Hosted bool
	// InstanceLabel is the label by which series of a metrics system usually name an
	// instance of the kind by its id; empty where there is no such custom.
	InstanceLabel string
	// LabelPlace is where a person edits the labels of a target; empty where fleets
	// are no Discoverers.
	LabelPlace string
	// Failing are the conditions of targets whose instances cannot start, or end by
	// themselves. They are to be told wherever it is told what fails.
	Failing []policy.ConditionType
	// Without is why fleets cannot be in a situation of the contract, by the
	// situation; all others are tested (see targettest.Table).
	Without map[string]string
}

// Config is the table of one fleet, of one kind.
type Config interface {
	// SetDefaults fills in what was not given.
	SetDefaults()
	// Validate returns every mistake of a defaulted table, with paths relative to it.
	Validate() []settings.FieldError
	// Build makes the fleet of a valid table, with no effect outside of the process.
	Build(name string, env Env) (Fleet, error)
}

// Target is the part of an autoscaler's target table that one kind of fleet reads.
type Target interface {
	// Validate returns every mistake, with paths relative to the table.
	Validate() []settings.FieldError
	// Name returns the target's canonical name, for a Ref.
	Name() string
}

// Localer is a Config of a kind whose fleets may be those of the machine that hpad runs
// on, which no other machine can read: Local reports whether this one is.
type Localer interface{ Local() bool }

// Local reports whether the fleet of a configuration is the machine's own.
func Local(c Config) bool {
	local, may := c.(Localer)
	return may && local.Local()
}

// TargetChecker is a Config that knows the targets there are. CheckTarget returns why
// there is none of that name; "" when there is.
type TargetChecker interface {
	CheckTarget(name string) string
}

// TargetBounder is a Config that knows how many instances a target can have. MostReplicas
// returns how many at most, and of what there are as many; 0 where nothing bounds it.
type TargetBounder interface {
	MostReplicas(target string) (most int32, of string)
}

// Requester is a Config by which all is known of what instances request. Requests reports
// whether those of a target state a request of a resource; at is the path, below the
// fleet's table, of the one in which a person states it, "" where there is none.
type Requester interface {
	Requests(target, resource string) (stated bool, at string)
}

// TargetDefaulter is a Config by which a target, of the same kind, is completed.
type TargetDefaulter interface {
	DefaultTarget(target Target)
}

// LabelReader is a Config of a kind whose fleets are Discoverers: whether this one is
// to discover, and what labels may ask for. Each embeds a [Discovery].
type LabelReader interface {
	Discovers() bool
	LimitsLabels() LabelLimits
}

// Limited is a Config that bounds each call. A read of targets, which may take several
// calls, goes on for as long as one of them at least, whoever still waits for it.
type Limited interface {
	CallTimeout() time.Duration
}

// EngineNamer is a Config of a kind of which several fleets may reach the same
// targets. Engine returns what two fleets have in common that are sure to do so, as
// the configuration tells. That two differ proves nothing.
type EngineNamer interface {
	Engine() string
}

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
