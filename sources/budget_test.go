package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const setting = `daemon.query_response_memory = "16Mi"`

// collectSeries collects a result with the given number of series, each with one named label of
// 100 bytes.
func collectSeries(ctx context.Context, b *Budget, series int) (Vector, error) {
	c, err := b.Collect(ctx, Query{Text: "up", Labels: []string{"id"}})
	if err != nil {
		return Vector{}, err
	}
	for i := range series {
		err := errors.Join(c.Label([]byte("other"), []byte(strings.Repeat("y", 300))), c.Label([]byte("id"), fmt.Appendf(nil, "%0100d", i)))
		if err == nil {
			err = c.Add(float64(i), time.Unix(1, 0))
		}
		if err != nil {
			c.Release()
			return Vector{}, err
		}
	}
	return c.Vector(nil), nil
}

// TestBudgetWait checks that a large result waits until another one is
// released, that small results do not wait, and that a wait ends with the context.
func TestBudgetWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(16<<20, setting)
		var large []Vector
		for range 3 { // each uses less than the 4 MiB that it claims first
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			vector, err := collectSeries(ctx, b, 12_000)
			cancel()
			if err == nil {
				large = append(large, vector)
			} else if !errors.Is(err, ErrBudget) || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "waited 1s for other queries, which use all of "+setting) {
				t.Errorf("error of the result above the budget = %v, want a wait of 1s, the budget and its key", err)
			}
		}
		if len(large) != 2 {
			t.Fatalf("large results within the budget = %d, want 2", len(large))
		}
		waiting := make(chan error)
		go func() {
			vector, err := collectSeries(t.Context(), b, 12_000)
			vector.Release()
			waiting <- err
		}()
		synctest.Wait()
		small, err := collectSeries(t.Context(), b, 10)
		if err != nil || len(small.Series) != 10 {
			t.Errorf("a small result failed while a large result was waiting: %v", err)
		}
		select {
		case err := <-waiting:
			t.Fatalf("the large result did not wait: %v", err)
		default:
		}
		large[0].Release()
		large[0].Release() // a second Release has no effect
		if err := <-waiting; err != nil {
			t.Errorf("the large result failed although memory became free: %v", err)
		}
		large[1].Release()
		small.Release()
		if usage := b.Usage(); usage != (Usage{Total: 16 << 20, Waits: 2, Refusals: 1}) {
			t.Errorf("usage = %+v, want nothing in use, 2 waits and 1 refusal", usage)
		}
	})
}

func TestBudgetBoundsOneAnswer(t *testing.T) {
	b := NewBudget(16<<20, setting)
	_, err := collectSeries(t.Context(), b, 100_000)
	if err == nil || !strings.Contains(err.Error(), "result exceeds 4 MiB at series ") || !strings.Contains(err.Error(), setting) {
		t.Errorf("error of a result of 30 MiB = %v, want the limit of 4 MiB and the key", err)
	}
	if usage := b.Usage(); usage.Used != 0 || usage.Refusals != 1 {
		t.Errorf("usage = %+v, want nothing in use and 1 refusal", usage)
	}
}
