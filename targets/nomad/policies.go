package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad/scaling"
)

// policyStub is a scaling policy in a list. All its targets are task groups or tasks of jobs.
type policyStub struct {
	ID     string
	Target struct{ Namespace, Job, Group, Task string }
}

func (p *policyStub) String() string {
	place := fmt.Sprintf("group %q of job %q in namespace %q", p.Target.Group, p.Target.Job, p.Target.Namespace)
	if p.Target.Task != "" {
		place = fmt.Sprintf("task %q of ", p.Target.Task) + place
	}
	return place
}

func compareTargets(a, b policyStub) int {
	return cmp.Or(cmp.Compare(a.Target.Namespace, b.Target.Namespace), cmp.Compare(a.Target.Job, b.Target.Job), cmp.Compare(a.Target.Group, b.Target.Group), cmp.Compare(a.Target.Task, b.Target.Task))
}

// ScalingPolicies returns the policies of nomad-autoscaler in all namespaces that the token may read,
// in the order of their targets. It makes one list call, and one call for each policy. Scaling blocks that
// contain only bounds are not policies. Each policy that cannot be read causes one error; all others
// are returned. If there are no policies, an error names the capabilities, because Nomad omits the
// namespaces that the token may not read.
func (a *Agent) ScalingPolicies(ctx context.Context) ([]scaling.Policy, []error) {
	s, err := a.connection.session()
	if err != nil {
		return nil, []error{err}
	}
	at := scope{region: s.config.Region, namespace: everyNamespace}
	var stubs []policyStub
	if _, err := readPages(ctx, s, at, list{path: "/v1/scaling/policies"}, func(stub *policyStub) { stubs = append(stubs, *stub) }); err != nil {
		return nil, []error{fmt.Errorf("list the scaling policies: %w", withCapabilities(readError(err)))}
	}
	slices.SortFunc(stubs, compareTargets)
	read := make([]*scaling.Policy, len(stubs))
	errs := guard.Each(s.config.fetching(), stubs, func(i int, stub policyStub) (err error) {
		if read[i], err = s.policy(ctx, &stub); err != nil {
			return fmt.Errorf("read the scaling policy of %s: %w", &stub, err)
		}
		return nil
	})
	policies := make([]scaling.Policy, 0, len(read))
	for _, policy := range read {
		if policy != nil && len(policy.Body) > 0 {
			policies = append(policies, *policy)
		}
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(policies)+len(errs) == 0 {
		errs = []error{errors.New("no scaling policy in a namespace that the token may read; the token needs the capabilities list-jobs and read-job")}
	}
	return policies, errs
}

// policy reads a policy. It returns nil if the job was purged after the list.
func (s *session) policy(ctx context.Context, stub *policyStub) (*scaling.Policy, error) {
	var found struct {
		scalingBlock
		Type string
	}
	at := scope{region: s.config.Region, namespace: stub.Target.Namespace}
	_, err := s.fetch(ctx, at, list{path: "/v1/scaling/policy/" + url.PathEscape(stub.ID)}, func(body io.Reader) error {
		return json.UnmarshalRead(body, &found, jsonOptions)
	})
	if err = readError(err); errors.Is(err, targets.ErrTargetNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, withCapabilities(err)
	}
	policy := found.of(stub.Target.Namespace, stub.Target.Job, stub.Target.Group)
	policy.Type = found.Type
	return &policy, nil
}

// withCapabilities adds the capabilities that reading jobs needs to an ErrForbidden.
func withCapabilities(err error) error {
	if errors.Is(err, targets.ErrForbidden) {
		return fmt.Errorf("%w; the token needs the capabilities list-jobs and read-job", err)
	}
	return err
}
