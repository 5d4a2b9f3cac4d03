package azurevmss

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/policy"
	platform "github.com/hpad/hpad/targets/cloud"
)

// operations are the tokens of the last accepted scale-ups, which fail long after they
// are accepted. They are safe for concurrent use; the zero value has none.
type operations struct {
	mu     sync.Mutex
	tokens map[key]string
}

// of returns the token of a set; empty if there is none.
func (o *operations) of(k key) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tokens[k]
}

// set remembers a token; an empty one forgets the last.
func (o *operations) set(k key, token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tokens == nil {
		o.tokens = map[key]string{}
	}
	o.tokens[k] = token
}

// Explain implements cloud.Platform: it reads the outcome of the last scale-up.
func (f *Fleet) Explain(ctx context.Context, k key, g *platform.Group[*scaleSet]) (*policy.Notice, error) {
	var notice policy.Notice
	if g.Native.state == stateFailed {
		notice = shortage("", fmt.Sprintf("the last change of scale set %q failed", k))
	}
	if token := f.operations.of(k); token != "" {
		failed, err := f.poll(ctx, k, token)
		if err != nil {
			return nil, err
		}
		if failed.Code != "" {
			notice = shortage(failed.Code, failed.Message)
		}
	}
	if notice.Condition == "" {
		return nil, nil
	}
	return &notice, nil
}

// poll reads the operation of an accepted change, and returns its error if it failed.
func (f *Fleet) poll(ctx context.Context, k key, token string) (platformError, error) {
	var status struct {
		Status string        `json:"status"`
		Error  platformError `json:"error"`
	}
	err := f.read(ctx, opPoll, func(ctx context.Context, c *client) error {
		poller, err := c.sets.BeginUpdate(ctx, k.group, k.set, armcompute.VirtualMachineScaleSetUpdate{},
			&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{ResumeToken: token})
		if err != nil {
			return err
		}
		response, err := poller.Poll(ctx)
		if err != nil {
			return err
		}
		if body, err := runtime.Payload(response); err == nil {
			_ = json.Unmarshal(body, &status) // another body has no status
		}
		return nil
	})
	if err != nil || !strings.EqualFold(status.Status, stateFailed) {
		return platformError{}, err
	}
	return status.Error.innermost(), nil
}
