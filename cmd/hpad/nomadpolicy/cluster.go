package nomadpolicy

import (
	"context"
	"fmt"

	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/targets/nomad"
)

// ReadCluster returns the scaling policies of a cluster in all namespaces that the token may read, and
// one error for each policy that it could not read. If ctx ends, the only error is its cause.
func ReadCluster(ctx context.Context, c *nomad.Config) ([]origin.Policy, []error) {
	agent, err := nomad.NewAgent(c)
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", c.Address, err)}
	}
	defer agent.Close()
	found, errs := agent.ScalingPolicies(ctx)
	if ctx.Err() != nil {
		return nil, []error{context.Cause(ctx)}
	}
	policies := make([]origin.Policy, len(found))
	for i := range found {
		policies[i] = &policy{Policy: found[i], place: c.Address}
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", c.Address, err)
	}
	return policies, errs
}
