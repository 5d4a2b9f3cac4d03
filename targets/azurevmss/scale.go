package azurevmss

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// SetReplicas sets the capacity of a scale set, if it has not changed since version:
// the set is read first, and the write names the ETag that it had then. A capacity
// that the set has already is not written again. Azure has no place for the reason.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.base.Scale(ctx, ref, n, "set", func(ctx context.Context, k key) error { return f.setReplicas(ctx, k, n, version) })
}

// find returns a scale set as it is now, where it is still at a version.
func (f *Fleet) find(ctx context.Context, k key, version string) (*scaleSet, error) {
	s, err := f.readSet(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := s.unscalable(); err != nil {
		return nil, err
	}
	return s, s.compare(version)
}

// held returns a HeldError while the count of a set must not be written.
func (f *Fleet) held(s *scaleSet) error {
	upgrade := ""
	if known := f.members.at(s.key); known != nil {
		upgrade = known.upgrade
	}
	if hold := f.hold(s, upgrade); hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	return nil
}

func (f *Fleet) setReplicas(ctx context.Context, k key, n int32, version string) error {
	s, err := f.find(ctx, k, version)
	if err != nil {
		return err
	}
	if s.capacity == n {
		return nil
	}
	if err := f.held(s); err != nil {
		return err
	}
	if most := s.highest(); n > *most {
		return &targets.OutOfRangeError{Min: new(int32), Max: most, Err: fmt.Errorf("azure lets scale set %q have at most %d machines", s.key, *most)}
	}
	return f.update(ctx, s, n, version)
}

// update writes the capacity of a set that was just read. An empty version asks for
// no comparison.
func (f *Fleet) update(ctx context.Context, s *scaleSet, n int32, version string) error {
	parameters := armcompute.VirtualMachineScaleSetUpdate{SKU: &armcompute.SKU{
		Name: &s.skuName, Capacity: new(int64(n)),
	}}
	if s.skuTier != "" {
		parameters.SKU.Tier = &s.skuTier
	}
	options := &armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{}
	if version != "" && s.etag != "" {
		options.IfMatch = &s.etag
	}
	var response *http.Response
	token := ""
	err := f.write(ctx, opUpdateSet, s, func(ctx context.Context, c *client) error {
		poller, err := c.sets.BeginUpdate(azpolicy.WithCaptureResponse(ctx, &response), s.group, s.name, parameters, options)
		if err == nil {
			token, _ = poller.ResumeToken() // none when it is done already
		}
		return err
	})
	if err != nil {
		return err
	}
	f.accepted(ctx, s, n, etagIn(response), token)
	return nil
}

// write makes one call that changes a set.
func (f *Fleet) write(ctx context.Context, operation string, s *scaleSet, do func(ctx context.Context, c *client) error) error {
	c, err := f.connection.Client(ctx)
	if err != nil {
		return err
	}
	call := platform.Call{Operation: operation, Class: platform.Write, Target: s.key.String()}
	err = f.do(ctx, c, call, func(err error) error { return writeError(err, s) }, func(ctx context.Context) error { return do(ctx, c) })
	if err != nil {
		f.members.forget(s.key) // what is known of it may be wrong
		f.recordShortage(s, err)
	}
	return err
}

// accepted remembers a change that the platform took. Token resumes the operation,
// whose failure is worth telling where it is to make machines.
func (f *Fleet) accepted(ctx context.Context, s *scaleSet, n int32, etag, token string) {
	now := time.Now()
	f.written.Add(s.key, s.version(), change{capacity: n, etag: etag}, now)
	f.members.forget(s.key)
	f.troubles.Clear(s.key)
	if token != "" && n > s.capacity {
		f.operations.begin(ctx, s.key, token, now)
	} else {
		f.operations.end(ctx, s.key, f.operations.at(s.key).Token)
	}
}

// recordShortage remembers a change that failed for want of capacity.
func (f *Fleet) recordShortage(s *scaleSet, err error) {
	held, ok := errors.AsType[*targets.HeldError](err)
	if !ok || held.Hold.Reason != QuotaExceeded && !slices.Contains(sayingShortage, held.Hold.Reason) {
		return
	}
	f.troubles.record(s.key, policy.Notice{
		Condition: platform.InsufficientCapacity, Reason: held.Hold.Reason, Message: held.Hold.Message,
	}, time.Now())
}

// etagIn returns the ETag in the response to a change; "" when it has none.
func etagIn(response *http.Response) string {
	if response == nil {
		return ""
	}
	body, err := runtime.Payload(response)
	var set struct {
		Etag string `json:"etag"`
	}
	if err != nil || json.Unmarshal(body, &set) != nil {
		return ""
	}
	return set.Etag
}

// Remove deletes machines of a scale set, which lowers its capacity by as many, if
// the set has not changed since version. Machines that are gone or on their way are
// left out; none is taken when one of them is protected.
func (f *Fleet) Remove(ctx context.Context, ref targets.Ref, ids []string, version, _ string) error {
	what := fmt.Sprintf("remove machines %q of scale set %q of fleet %q", ids, ref.Name, f.base.Name)
	return f.base.Write(ctx, ref, what, func(ctx context.Context, k key) error { return f.remove(ctx, k, ids, version) })
}

func (f *Fleet) remove(ctx context.Context, k key, ids []string, version string) error {
	s, err := f.find(ctx, k, version)
	if err != nil {
		return err
	}
	machines, err := f.listMachines(ctx, s)
	if err != nil {
		return err
	}
	victims, err := victimsOf(s, machines, ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	if err := f.held(s); err != nil {
		return err
	}
	handles := make([]*string, len(victims))
	for i, victim := range victims {
		handles[i] = &victim.handle
	}
	err = f.write(ctx, opDeleteMembers, s, func(ctx context.Context, c *client) error {
		_, err := c.sets.BeginDeleteInstances(ctx, s.group, s.name, armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: handles}, nil)
		return err
	})
	if err != nil {
		return err
	}
	f.accepted(ctx, s, max(0, s.capacity-int32(len(victims))), "", "")
	return nil
}

// victimsOf returns the machines of some ids that are there and not on their way
// out.
func victimsOf(s *scaleSet, machines []*machine, ids []string) ([]*machine, error) {
	var victims, protected []*machine
	for _, m := range machines {
		if !slices.Contains(ids, m.name) || !m.member() || m.leaving() {
			continue
		}
		victims = append(victims, m)
		if m.protected {
			protected = append(protected, m)
		}
	}
	if len(protected) == 0 {
		return victims, nil
	}
	names := make([]string, len(protected))
	for i, m := range protected {
		names[i] = m.name
	}
	return nil, &targets.HeldError{Hold: policy.Hold{
		Reason:  MachineProtected,
		Message: fmt.Sprintf("machines %s of scale set %q are protected from scale-in", strings.Join(names, ", "), s.key),
	}}
}
