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
		looks := 0
		var told bytes.Buffer
		err := follow(ctx, &told, func() error {
			looks++
			if looks > len(results) {
				cancel()
				return context.Canceled
			}
			return results[looks-1]
		})
		if err != nil || looks != 7 || strings.Count(told.String(), "waiting for the daemon") != 2 {
			t.Errorf("it ends with %v after %d looks, and tells %q", err, looks, &told)
		}
		if err := follow(t.Context(), io.Discard, func() error { return away }); !errors.Is(err, away) {
			t.Errorf("a daemon that never was there ends it with %v", err)
		}
		refused := errors.New("refused")
		looks = 0
		err = follow(t.Context(), io.Discard, func() error {
			if looks++; looks > 1 {
				return refused
			}
			return nil
		})
		if !errors.Is(err, refused) {
			t.Errorf("another error ends it with %v", err)
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
	look := func() {
		var asked []api.Recorded
		for _, e := range all {
			if !e.Time.Before(r.from()) {
				asked = append(asked, e)
			}
		}
		for _, e := range r.unseen(asked) {
			got = append(got, fmt.Sprint(e.Autoscaler, e.Time.Sub(begin).Seconds()))
		}
	}
	look()
	all = append(all, entry("z", -time.Second)) // the first response was limited and did not contain it
	look()
	all = append(all, entry("b", 15*time.Second))
	look()
	all = append(all, entry("a", 15*time.Second), entry("c", 0)) // entries of passes that took longer
	look()
	all = append(all, entry("a", 10*time.Minute))
	look()
	look()
	if want := "a0 b0 b15 a15 c0 a600"; strings.Join(got, " ") != want {
		t.Errorf("shown %q, want %q", got, want)
	}
	if len(r.seen) != 1 {
		t.Errorf("%d entries are remembered that cannot come again", len(r.seen))
	}
}
