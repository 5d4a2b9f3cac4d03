package targets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// newBase returns the Base of a fleet whose target names are in upper case.
func newBase() *Base[string] {
	return &Base[string]{Name: "shop", Place: " in region", Parse: func(name string) (string, error) {
		if name != strings.ToUpper(name) {
			return "", fmt.Errorf("%q is not in upper case", name)
		}
		return name, nil
	}}
}

func TestBaseSnapshot(t *testing.T) {
	b := newBase()
	good, odd, foreign := Ref{"shop", "WEB"}, Ref{"shop", "web"}, Ref{"other", "WEB"}
	observed := time.Now().Add(-time.Minute)
	calls := 0
	read := func(_ context.Context, wanted map[Ref]string) (map[Ref]Reading, error) {
		calls++
		found := map[Ref]Reading{}
		for ref := range wanted {
			found[ref] = Reading{SpecReplicas: 3, Observed: observed}
		}
		return found, nil
	}
	refs := []Ref{good, odd, foreign}
	readings, err := b.Snapshot(t.Context(), refs, read)
	again, errAgain := b.Snapshot(t.Context(), refs, read)
	if known := b.Known(); !slices.Equal(known, []string{"WEB"}) {
		t.Errorf("Known() = %q, want the target that was read", known)
	}
	if errAgain != nil || len(again) != len(readings) || again[good].SpecReplicas != 3 || again[odd].Err == nil || again[foreign].Err == nil {
		t.Errorf("second Snapshot() = %+v, %v, want %+v", again, errAgain, readings)
	}
	if err != nil || len(readings) != 3 || readings[good].SpecReplicas != 3 || !readings[good].Observed.Equal(observed) {
		t.Fatalf("Snapshot() = %+v, %v, want three readings, one of them of %s", readings, err, good)
	}
	for ref, text := range map[Ref]string{odd: "not in upper case", foreign: `does not belong to fleet "shop"`} {
		if r := readings[ref]; !errors.Is(r.Err, ErrTargetNotFound) || !strings.Contains(r.Err.Error(), text) || r.Observed.IsZero() {
			t.Errorf("%s: %+v, want an ErrTargetNotFound that contains %q", ref, r, text)
		}
	}
	if _, err := b.Snapshot(t.Context(), []Ref{odd}, read); err != nil || calls != 2 {
		t.Errorf("Snapshot() without a valid name = %v after %d calls, want no further call", err, calls)
	}
	_, err = b.Snapshot(t.Context(), []Ref{good}, func(context.Context, map[Ref]string) (map[Ref]Reading, error) { return nil, ErrForbidden })
	if !errors.Is(err, ErrForbidden) || !strings.HasPrefix(err.Error(), `read fleet "shop" in region: `) {
		t.Errorf("failing Snapshot() = %v, want ErrForbidden", err)
	}
	b.MarkClosed()
	if _, err := b.Snapshot(t.Context(), []Ref{good}, read); !errors.Is(err, ErrTransient) || calls != 2 {
		t.Errorf("Snapshot() of a closed fleet = %v after %d calls, want ErrTransient and no call", err, calls)
	}
}

func TestBaseScale(t *testing.T) {
	b := newBase()
	web := Ref{"shop", "WEB"}
	calls := 0
	change := func(context.Context, string) error { calls++; return nil }
	for _, c := range []struct {
		ref  Ref
		n    int32
		want error
	}{
		{web, 2, nil}, {web, -1, ErrOutOfRange}, {Ref{"other", "WEB"}, 2, ErrTargetNotFound}, {Ref{"shop", "web"}, 2, ErrTargetNotFound},
	} {
		err := b.Scale(t.Context(), c.ref, c.n, "service", change)
		if !errors.Is(err, c.want) || err != nil && !strings.HasPrefix(err.Error(), "scale service ") {
			t.Errorf("Scale(%s, %d) = %v, want %v", c.ref, c.n, err, c.want)
		}
	}
	if calls != 1 {
		t.Errorf("calls = %d, want 1", calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Write(ctx, web, "remove target", func(context.Context, string) error { cancel(); return ErrTransient })
	if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrTransient) {
		t.Errorf("Write() with a canceled context = %v, want ErrUnknownOutcome in addition to the error", err)
	}
}

// TestRetryAfter checks all headers that can require a pause.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		name, value string
		low, high   time.Duration
	}{
		{"Retry-After", "3", 3 * time.Second, 3 * time.Second},
		{"Retry-After", "", 0, 0},
		{"Retry-After", "0", 0, 0},
		{"Retry-After", "-7", 0, 0},
		{"Retry-After", "soon", 0, 0},
		{"x-ms-retry-after-ms", "250", 250 * time.Millisecond, 250 * time.Millisecond},
		{"Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		{"Retry-After", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
	} {
		header := http.Header{}
		header.Set(test.name, test.value)
		if got := RetryAfter(header); got < test.low || got > test.high {
			t.Errorf("RetryAfter(%s: %s) = %v, want %v to %v", test.name, test.value, got, test.low, test.high)
		}
	}
}
