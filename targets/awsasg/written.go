package awsasg

import (
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// believed is how long an accepted change is believed where AWS does not show it yet.
const believed = time.Minute

// written remembers the changes that AWS accepted. Its descriptions may lag behind:
// a count that seems unwritten would be taken for somebody else's, and an instance
// that was terminated for one that runs. It is safe for concurrent use; the zero
// value is ready.
type written struct {
	mu      sync.Mutex
	changes map[string]change
}

// change is what the changes of a group made of it that were not seen yet.
type change struct {
	// versions are those that the group had before each of them.
	versions []string
	desired  int32
	// terminated are the instances that were taken by name.
	terminated []string
	at         time.Time
}

// note remembers a change of a group as it was read before.
func (w *written) note(before *group, desired int32, terminated []string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes == nil {
		w.changes = map[string]change{}
	}
	last := w.changes[before.name()]
	w.changes[before.name()] = change{
		versions: append(last.versions, before.version()), desired: desired,
		terminated: append(last.terminated, terminated...), at: now,
	}
}

// apply makes a group that is described as it was before the last changes what they
// made of it. A description of anything else ends that.
func (w *written) apply(g *group, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.changes[g.name()]
	if !ok {
		return
	}
	if !slices.Contains(last.versions, g.version()) || now.Sub(last.at) > believed {
		delete(w.changes, g.name())
		return
	}
	g.DesiredCapacity = &last.desired
	for n := range g.Instances {
		i := &g.Instances[n]
		if slices.Contains(last.terminated, aws.ToString(i.InstanceId)) && !stageOf(i.LifecycleState).deleting {
			i.LifecycleState = types.LifecycleStateTerminating
		}
	}
}
