package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hpad/hpad/daemon/state"
)

// answering is a term whose writes have an outcome.
type answering struct {
	Term
	err error
}

func (t answering) Write(context.Context, map[string][]byte) error { return t.err }

// TestFencedWritesAreCounted holds that of the writes that fail those are counted that
// came after the term.
func TestFencedWritesAreCounted(t *testing.T) {
	c := New(Options{})
	for _, err := range []error{nil, errors.New("no quorum"), fmt.Errorf("term 3: %w", state.ErrFenced)} {
		if got := (counted{answering{err: err}, c}).Write(t.Context(), nil); !errors.Is(got, err) {
			t.Errorf("the error is %v, want %v", got, err)
		}
	}
	if got := c.standing().Fenced; got != 1 {
		t.Errorf("%d writes were fenced, want 1", got)
	}
}
