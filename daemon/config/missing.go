package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// onMissingTable is the proposal of a metric after it has failed for a while.
type onMissingTable struct {
	// After is the required duration of the failure: whole seconds, at least the sync_period.
	After time.Duration `toml:"after"`
	// Use is the proposal: "hold", the present count; "last", the last proposal; "max",
	// max_replicas; or "replicas:N".
	Use string `toml:"use"`
}

// replicasUse is the prefix of a Use with a count.
const replicasUse = string(policy.UseReplicas) + ":"

// spec returns the spec for policy; nil for nil. An invalid Use is left empty.
func (o *onMissingTable) spec() *policy.OnMissing {
	if o == nil {
		return nil
	}
	spec := &policy.OnMissing{AfterSeconds: int32(max(0, min(math.MaxInt32, (o.After+time.Second-1)/time.Second)))}
	switch use := policy.MissingUse(o.Use); use {
	case policy.UseHold, policy.UseLast, policy.UseMax:
		spec.Use = use
	}
	if count, ok := strings.CutPrefix(o.Use, replicasUse); ok {
		if n, err := strconv.ParseInt(count, 10, 32); err == nil {
			spec.Use, spec.Replicas = policy.UseReplicas, int32(n)
		}
	}
	return spec
}

func onMissingTableOf(spec *policy.OnMissing) *onMissingTable {
	if spec == nil {
		return nil
	}
	o := &onMissingTable{After: time.Duration(spec.AfterSeconds) * time.Second, Use: string(spec.Use)}
	if spec.Use == policy.UseReplicas {
		o.Use = replicasUse + strconv.Itoa(int(spec.Replicas))
	}
	return o
}

// checkMissing validates on_missing, except for the bounds of the count, which policy checks.
func (t *table) checkMissing(path string, o *onMissingTable, period time.Duration, strict bool) {
	path = under(path, "on_missing")
	switch {
	case o == nil:
		return
	case strict:
		t.add(path, "", `is not allowed with compat = "strict": a failed metric of an HPA has no proposal`)
		return
	}
	after, use := under(path, "after"), under(path, "use")
	switch {
	case o.After == 0:
		t.add(after, "", `is required: the duration of the failure, such as "3m"`)
	case o.After < period:
		t.addWritten(after, fmt.Sprintf("must be at least the sync_period, which is %s", period))
	case o.After%time.Second != 0:
		t.addWritten(after, settings.WholeSeconds)
	}
	const words = `"hold", "last", "max" or "replicas:N"`
	switch {
	case o.Use == "":
		t.add(use, "", "is required: the proposal of the metric, "+words)
	case o.spec().Use == "":
		t.addWritten(use, "must be "+words)
	}
}
