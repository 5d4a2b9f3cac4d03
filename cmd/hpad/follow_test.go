package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// TestFollow checks that follow waits for a missing daemon with one warning, and returns if another
// error occurs or the context ends.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &api.ReachError{Address: "/run/hpad/hpad.sock", Err: errors.New("connection refused")}
		ctx, cancel := context.WithCancel(t.Context())
		results := []error{nil, away, away, nil, away, nil}
		calls := 0
		var output bytes.Buffer
		err := follow(ctx, &output, func() error {
			calls++
			if calls > len(results) {
				cancel()
				return context.Canceled
			}
			return results[calls-1]
		})
		if err != nil || calls != 7 || strings.Count(output.String(), "waiting for the daemon") != 2 {
			t.Errorf("follow() = %v after %d calls with output %q, want 7 calls and 2 warnings", err, calls, &output)
		}
		if err := follow(t.Context(), io.Discard, func() error { return away }); !errors.Is(err, away) {
			t.Errorf("follow() without a daemon = %v, want %v", err, away)
		}
		refused := errors.New("refused")
		calls = 0
		err = follow(t.Context(), io.Discard, func() error {
			if calls++; calls > 1 {
				return refused
			}
			return nil
		})
		if !errors.Is(err, refused) {
			t.Errorf("follow() = %v, want %v", err, refused)
		}
	})
}

// TestUnseen checks that each entry is shown once, even if it is recorded late or has the same time
// as another entry.
func TestUnseen(t *testing.T) {
	begin := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	entry := func(name string, after time.Duration) api.Recorded {
		return api.Recorded{Autoscaler: name, Time: begin.Add(after)}
	}
	all := []api.Recorded{entry("a", 0), entry("b", 0)}
	r := historyCursor{oldest: begin}
	var got []string
	request := func() {
		var response []api.Recorded
		for _, e := range all {
			if !e.Time.Before(r.from()) {
				response = append(response, e)
			}
		}
		for _, e := range r.unseen(response) {
			got = append(got, fmt.Sprint(e.Autoscaler, e.Time.Sub(begin).Seconds()))
		}
	}
	request()
	all = append(all, entry("z", -time.Second)) // the first response was limited and did not contain it
	request()
	all = append(all, entry("b", 15*time.Second))
	request()
	all = append(all, entry("a", 15*time.Second), entry("c", 0)) // entries of evaluations that took longer
	request()
	all = append(all, entry("a", 10*time.Minute))
	request()
	request()
	if want := "a0 b0 b15 a15 c0 a600"; strings.Join(got, " ") != want {
		t.Errorf("new entries = %q, want %q", got, want)
	}
	if len(r.seen) != 1 {
		t.Errorf("the cursor stores %d entries, want only the entry that can recur", len(r.seen))
	}
}
