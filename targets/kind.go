package targets

import (
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// Kind describes one kind of fleet. Its package declares it as the variable Kind, and package
// daemon/kinds lists it.
type Kind struct {
	// Name is the value of the key "kind" in a fleet's table.
	Name string
	// Config returns an empty fleet table, and Target returns an empty target table. Both are
	// pointers to structs with toml tags.
	Config func() Config
	Target func() Target
	// Reference is the syntax of targets on the command line.
	Reference Reference
	// Samples reports whether the fleets are Samplers, and Removes whether they are Removers.
	Samples, Removes bool
	// Guarded reports whether hpad, by default, treats a reading in which most instances are
	// missing as suspect.
	Guarded bool
	// Hosted reports whether instances are processes that hpad starts, so that only the running
	// hpad can read them.
	Hosted bool
	// InstanceLabel is the metric label that usually contains the instance's id; it may be empty.
	InstanceLabel string
	// Limits contains the resources with limits that the fleet reports in Location.Limits. Each
	// value is an instruction for the user to set the limit. A kind with limits provides
	// Reading.Locations.
	Limits map[string]string
	// LabelPlace describes where to edit the labels of a target; it is empty if the fleets are not
	// Discoverers.
	LabelPlace string
	// Failing lists the conditions of targets with instances that crash or cannot start, for
	// alerts.
	Failing []policy.ConditionType
	// Restart is the platform's own command for a rolling replacement of instances. It is empty if
	// the fleets are Restarters.
	Restart string
	// Without maps situations in the contract suite (see targettest.Table) to the reason why they
	// cannot occur with this kind.
	Without map[string]string
}

// Config is the table of one fleet.
type Config interface {
	// SetDefaults sets missing values to their defaults.
	SetDefaults()
	// Validate returns all errors in the table, with paths relative to it. It is called after
	// SetDefaults.
	Validate() []settings.FieldError
	// Build builds a fleet from a valid table, without any effect outside of the process.
	Build(name string, env Env) (Fleet, error)
}

// Target is the part of an autoscaler's target table for one kind of fleet.
type Target interface {
	// Validate returns all errors in the table, with paths relative to it.
	Validate() []settings.FieldError
	// Name returns the target's canonical name, for a Ref.
	Name() string
}

// localReporter is a Config of fleets that may be on hpad's own host, so that no other host can
// read them. Local reports whether this fleet is on hpad's own host.
type localReporter interface{ Local() bool }

// Local reports whether a fleet is on hpad's own host.
func Local(c Config) bool {
	local, may := c.(localReporter)
	return may && local.Local()
}

// TargetChecker is a Config that can check target names. CheckTarget describes the problem with a
// target name; "" if it is valid.
type TargetChecker interface {
	CheckTarget(name string) string
}

// TargetBounder is a Config that limits the number of a target's instances. MostReplicas returns
// the limit and its cause; 0 if there is no limit.
type TargetBounder interface {
	MostReplicas(target string) (most int32, of string)
}

// Surger is a TargetBounder for targets that need additional instances during a replacement. Surge
// returns their number.
type Surger interface {
	Surge(target string) int32
}

// Requester is a Config that contains the resource requests of instances. Requests reports whether
// a target requests a resource. The result at is the path of the request, relative to the fleet's
// table, or "".
type Requester interface {
	Requests(target, resource string) (stated bool, at string)
}

// TargetDefaulter is a Config with defaults for targets of its kind.
type TargetDefaulter interface {
	DefaultTarget(target Target)
}

// LabelReader is a Config of a kind with fleets that are Discoverers. It embeds a [Discovery].
type LabelReader interface {
	Discovers() bool
	LimitsLabels() LabelLimits
}

// CallTimeouter is a Config with a timeout for calls. A snapshot, which may take several calls, is
// allowed at least that time.
type CallTimeouter interface {
	CallTimeout() time.Duration
}

// WriteLimiter is a Config of a platform that accepts many writes at the same time. The daemon's
// concurrent_syncs applies if it is higher.
type WriteLimiter interface {
	// ConcurrentWrites returns the maximum number of concurrent writes of counts; at least 1.
	ConcurrentWrites() int
}

// EngineIdentifier is a Config of fleets that can share targets. Fleets with equal Engine
// values use the same platform. Fleets with different values may still use the same platform.
type EngineIdentifier interface {
	Engine() string
}

// Discovery contains the settings for autoscalers in labels. Configurations of Discoverers embed
// it without a tag.
type Discovery struct {
	// Discover creates autoscalers for targets with labels that begin with "hpad.", or for task
	// groups with such meta keys.
	Discover bool `toml:"discover"`
	// LabelLimits contains the limits for autoscalers in labels.
	LabelLimits LabelLimits `toml:"label_limits"`
}

// Discovers reports whether targets with labels become autoscalers.
func (d *Discovery) Discovers() bool { return d.Discover }

// LimitsLabels returns the limits for autoscalers in labels.
func (d *Discovery) LimitsLabels() LabelLimits { return d.LabelLimits }

// LabelLimits contains limits for autoscalers in labels. They are necessary because anyone who
// may deploy a target can set its labels. A zero value means the default.
type LabelLimits struct {
	// Autoscalers limits the number of the fleet's autoscalers in labels; existing autoscalers are
	// kept. At least 1.
	Autoscalers int `toml:"autoscalers" default:"1000" min:"1"`
	// Metrics limits the number of metrics of an autoscaler; at least 1.
	Metrics int `toml:"metrics" default:"10" min:"1"`
	// MaxReplicas limits max_replicas; at least 1.
	MaxReplicas int32 `toml:"max_replicas" default:"1000" min:"1"`
	// SyncPeriod is the minimum value of sync_period in labels; at least 1s.
	SyncPeriod time.Duration `toml:"sync_period" default:"5s" min:"1s" must:"at least \"1s\""`
	// Query limits the length of a query in bytes; at least 1.
	Query int `toml:"query" default:"4096" min:"1"`
}

// Limits for the names and labels of a target, in bytes. Names and labels become part of state
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

// Total returns the size limit for all labels of a target, in bytes.
func (l *LabelLimits) Total() int { return maxLabels + l.Metrics*l.Query }

// SetDefaults sets missing values to their defaults.
func (l *LabelLimits) SetDefaults() { settings.SetDefaults(l) }
