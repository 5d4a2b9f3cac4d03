package azurevmss

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/ledger"
)

// How often an accepted change is polled, and for how long.
const (
	pollEvery     = 10 * time.Second
	operationLife = time.Hour

	operationPrefix = "operations/"
)

// operations are the accepted scale-ups that the platform still works on. They are
// kept across restarts, and safe for concurrent use. A store that fails forgets them at
// a restart, and with them only the words of a failure.
type operations struct {
	*ledger.Ledger[operation]

	mu     sync.Mutex
	loaded bool
	// polled is when each was read last.
	polled map[key]time.Time
}

// operation is one accepted change.
type operation struct {
	// Token resumes it; empty where there is none.
	Token string    `json:"token"`
	Began time.Time `json:"began"`
}

// Equal reports whether another operation is the same.
func (o operation) Equal(other operation) bool {
	return o.Token == other.Token && o.Began.Equal(other.Began)
}

// Empty reports whether there is none.
func (o operation) Empty() bool { return o.Token == "" }

func newOperations(store targets.Store) *operations {
	return &operations{Ledger: ledger.New[operation](store, operationPrefix), loaded: store == nil, polled: map[key]time.Time{}}
}

// load reads what was stored, once.
func (o *operations) load(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded {
		return nil
	}
	if err := o.Load(ctx); err != nil {
		return fmt.Errorf("load the changes under way: %w", err)
	}
	o.loaded = true
	return nil
}

// begin remembers an accepted change, in place of an earlier one of the set.
func (o *operations) begin(ctx context.Context, k key, token string, now time.Time) {
	o.mu.Lock()
	o.polled[k] = now
	o.mu.Unlock()
	o.Change(k.String(), func(operation) operation { return operation{Token: token, Began: now} })
	_ = o.Save(ctx, k.String())
}

// end forgets the change that a token resumes, unless a later one took its place.
func (o *operations) end(ctx context.Context, k key, token string) {
	o.Change(k.String(), func(known operation) operation {
		if known.Token == token {
			return operation{}
		}
		return known
	})
	_ = o.Save(ctx, k.String())
}

// due returns the changes to be polled now, in order.
func (o *operations) due(wanted map[key]bool, now time.Time) []key {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []key
	for _, name := range o.Names() {
		if k, err := keyOf(name); err == nil && wanted[k] && now.Sub(o.polled[k]) >= pollEvery {
			o.polled[k] = now
			found = append(found, k)
		}
	}
	return found
}

func (o *operations) at(k key) operation {
	known, _ := o.Of(k.String())
	return known
}

// poll reads the operation of an accepted change, and returns what failed when it did.
// One that ended, or cannot be read any more, is forgotten.
func (f *Fleet) poll(ctx context.Context, k key, now time.Time) *platform.Answer {
	under := f.operations.at(k)
	ended := now.Sub(under.Began) > operationLife
	var status struct {
		Status string        `json:"status"`
		Error  platformError `json:"error"`
	}
	if !ended {
		err := f.read(ctx, opPoll, func(ctx context.Context, c *client) error {
			poller, err := c.sets.BeginUpdate(ctx, k.group, k.set, armcompute.VirtualMachineScaleSetUpdate{},
				&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{ResumeToken: under.Token})
			if err != nil {
				ended = true // the token is of no use
				return nil
			}
			response, err := poller.Poll(ctx)
			if err != nil {
				return err
			}
			ended = poller.Done()
			if body, err := runtime.Payload(response); err == nil {
				_ = json.Unmarshal(body, &status) // one that is no status says nothing
			}
			return nil
		})
		answer, answered := errors.AsType[*platform.Answer](err)
		ended = ended || answered && answer.Status/100 == 4 && answer.Status != http.StatusTooManyRequests // nobody will know
	}
	if ended {
		f.operations.end(ctx, k, under.Token)
	}
	if !strings.EqualFold(status.Status, stateFailed) {
		return nil
	}
	inner := status.Error.innermost()
	return newAnswer(0, inner.Code, inner.Message)
}
