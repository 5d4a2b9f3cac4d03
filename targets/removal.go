package targets

import (
	"cmp"
	"time"

	"github.com/hpad/hpad/policy"
)

// RemovalClass groups instances for a scale-down. The lowest class is removed first.
type RemovalClass int

// The removal classes, in the order of the ReplicaSet controller.
const (
	RemoveFailed RemovalClass = iota
	RemoveTerminating
	RemoveUnknown
	RemovePending
	RemoveUnready
	RemoveReady
)

// RemovalClassOf returns the removal class of an instance.
func RemovalClassOf(i *policy.Instance) RemovalClass {
	switch {
	case i.Phase == policy.PhaseFailed || i.Phase == policy.PhaseSucceeded:
		return RemoveFailed
	case i.Deleting:
		return RemoveTerminating
	case i.Phase == policy.PhaseUnknown:
		return RemoveUnknown
	case i.Phase == policy.PhasePending:
		return RemovePending
	case i.Readiness != policy.ReadinessTrue:
		return RemoveUnready
	}
	return RemoveReady
}

// CompareForRemoval compares two instances of a target in the removal order of the ReplicaSet
// controller: negative if a is removed before b. Preference, the result of a comparison by a
// fleet's own order, decides between instances of the same class. After it, the instance that
// became ready last is removed first, or, for unready instances, the one that started last. Times
// are compared in whole seconds, as Kubernetes stores them.
func CompareForRemoval(a, b *policy.Instance, preference int) int {
	class := RemovalClassOf(a)
	latest := b.StartedAt.Truncate(time.Second).Compare(a.StartedAt.Truncate(time.Second))
	if class == RemoveReady {
		latest = cmp.Or(b.ReadinessChanged.Truncate(time.Second).Compare(a.ReadinessChanged.Truncate(time.Second)), latest)
	}
	return cmp.Or(cmp.Compare(class, RemovalClassOf(b)), preference, latest)
}
