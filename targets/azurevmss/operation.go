package azurevmss

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
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
	store targets.Store

	mu     sync.Mutex
	loaded bool
	known  map[key]operation
}

// operation is one accepted change.
type operation struct {
	// Token resumes it.
	Token string    `json:"token"`
	Began time.Time `json:"began"`

	polled time.Time
}

func newOperations(store targets.Store) *operations {
	return &operations{store: store, known: map[key]operation{}}
}

// load reads what was stored, once.
func (o *operations) load(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded || o.store == nil {
		return nil
	}
	stored, err := o.store.List(ctx, operationPrefix)
	if err != nil {
		return fmt.Errorf("%w: load the changes under way: %w", targets.ErrTransient, err)
	}
	for name, text := range stored {
		var known operation
		k, err := keyOf(strings.TrimPrefix(name, operationPrefix))
		if err == nil {
			err = json.Unmarshal(text, &known)
		}
		if err != nil {
			return fmt.Errorf("%w: load the changes under way: entry %q of the fleet's store: %w", targets.ErrTransient, name, err)
		}
		o.known[k] = known
	}
	o.loaded = true
	return nil
}

// begin remembers an accepted change, in place of an earlier one of the set.
func (o *operations) begin(ctx context.Context, k key, token string, now time.Time) {
	next := operation{Token: token, Began: now, polled: now}
	o.mu.Lock()
	o.known[k] = next
	o.mu.Unlock()
	if text, err := json.Marshal(next); err == nil && o.store != nil {
		_ = o.store.Save(ctx, operationPrefix+k.String(), text)
	}
}

// end forgets the change that a token resumes, unless a later one took its place.
func (o *operations) end(ctx context.Context, k key, token string) {
	o.mu.Lock()
	known, ok := o.known[k]
	ended := ok && known.Token == token
	if ended {
		delete(o.known, k)
	}
	o.mu.Unlock()
	if ended && o.store != nil {
		_ = o.store.Delete(ctx, operationPrefix+k.String())
	}
}

// due returns the changes to be polled now, in order.
func (o *operations) due(wanted map[key]bool, now time.Time) []key {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []key
	for _, k := range slices.SortedFunc(maps.Keys(o.known), key.compare) {
		if known := o.known[k]; wanted[k] && now.Sub(known.polled) >= pollEvery {
			known.polled = now
			o.known[k] = known
			found = append(found, k)
		}
	}
	return found
}

func (o *operations) at(k key) operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[k]
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
