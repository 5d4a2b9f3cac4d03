package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/lease"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/test/soak"
)

const fleet = "prod"

func (f *fake) own(t *testing.T, name string) *term {
	t.Helper()
	f.mu.Lock()
	for path := range f.variables {
		if strings.Contains(path, "/who/members/") {
			delete(f.variables, path) // as if its ttl had expired
		}
	}
	f.mu.Unlock()
	s, err := f.connect(t).Join(t.Context(), cluster.Member{Name: name}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	owned, err := s.Acquire(t.Context(), fleet, "1")
	if err != nil {
		t.Fatal(err)
	}
	return owned.(*term)
}

func load(t *testing.T, from *term) map[string]string {
	t.Helper()
	found := map[string]string{}
	if err := from.Load(t.Context(), func(key string, value []byte) error {
		found[key] = string(value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func noise(random *rand.Rand, size int) []byte {
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	return value
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestSilence(t *testing.T) {
	f := newFake(t)
	now := f.own(t, "m")
	load(t, now)
	now.s.c.config.Timeout = 100 * time.Millisecond
	once := func(method string) {
		done := false
		f.meet(func(r *http.Request) fate {
			if done || r.Method != method {
				return arrives
			}
			done = true
			return silent
		})
	}
	once(http.MethodPut)
	if err := now.Write(t.Context(), map[string][]byte{"a": []byte("1")}); err != nil {
		t.Fatalf("write with a lost first response: %v", err)
	}
	once(http.MethodGet)
	err := now.s.c.Load(t.Context(), fleet, func(string, []byte) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("read with a lost response: %v, want %v", err, context.DeadlineExceeded)
	}
	if found := load(t, now); found["a"] != "1" {
		t.Errorf("state = %v", found)
	}
}

func TestLateWrites(t *testing.T) {
	for seed := range uint64(soak.Rounds(12, 400)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			f := newFake(t)
			may := map[string][]string{}
			var previous *term
			for owner := range 6 {
				f.meet(nil)
				now := f.own(t, fmt.Sprint("m", owner))
				f.meet(f.mishaps(seed+uint64(owner), 4))
				_ = now.Load(soon(t), func(string, []byte) error { return nil }) // its context may end during the call
				f.meet(nil)
				found := load(t, now)
				f.arrive()
				for key, values := range may {
					if !slices.Contains(values, found[key]) {
						t.Fatalf("owner %d read %.20q for %s, want one of %.20q", owner, found[key], key, values)
					}
					may[key] = []string{found[key]}
				}
				if previous != nil {
					if err := previous.Write(t.Context(), map[string][]byte{"a0": []byte("late")}); !errors.Is(err, state.ErrFenced) {
						t.Fatalf("write of the previous owner = %v, want %v", err, state.ErrFenced)
					}
				}
				f.meet(f.mishaps(seed*7+uint64(owner), 6))
				for range 8 {
					f.write(t, now, random, may)
				}
				previous = now
			}
			f.meet(nil)
			f.mu.Lock()
			pages := 0
			for path := range f.variables {
				if strings.Contains(path, "/records/") {
					pages++
				}
			}
			f.mu.Unlock()
			if pages < 3 {
				t.Errorf("number of pages = %d, want more than one at some time", pages)
			}
		})
	}
}

func (f *fake) mishaps(seed uint64, one int) func(*http.Request) fate {
	random := rand.New(rand.NewPCG(seed, 2))
	return func(r *http.Request) fate {
		switch {
		case random.IntN(one) > 0:
			return arrives
		case r.Method == http.MethodGet:
			return []fate{lost, outdated}[random.IntN(2)]
		}
		return []fate{lost, unanswered, late}[random.IntN(3)]
	}
}

func (f *fake) write(t *testing.T, owner *term, random *rand.Rand, may map[string][]string) {
	values := map[string][]byte{}
	for range 1 + random.IntN(20) {
		key := fmt.Sprint("a", random.IntN(60))
		if values[key] = noise(random, 1+random.IntN(5000)); random.IntN(6) == 0 {
			values[key] = nil
		}
	}
	err := owner.Write(soon(t), maps.Clone(values))
	for key, value := range values {
		if _, known := may[key]; !known {
			may[key] = []string{""}
		}
		if err == nil {
			may[key] = nil
		}
		may[key] = append(may[key], string(value))
	}
	if random.IntN(3) == 0 {
		f.arrive()
	}
}

func TestMissingPage(t *testing.T) {
	f := newFake(t)
	first := f.own(t, "a")
	if err := first.Write(t.Context(), map[string][]byte{"a": []byte("1")}); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.index++
	delete(f.variables, "hpad/test/records/prod/1/0")
	f.mu.Unlock()
	const want = `variable "hpad/test/records/prod/1/0" with state of fleet "prod" is missing in Nomad`
	if err := first.Write(t.Context(), map[string][]byte{"a": []byte("2")}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Write() = %v, want %s", err, want)
	}
	if err := f.own(t, "b").Load(t.Context(), func(string, []byte) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Load() = %v, want %s", err, want)
	}
}

// TestLargeRecord checks that the error of a write names a record that is too large for a
// variable, and that the other records can still be read.
func TestLargeRecord(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	f := newFake(t)
	owner := f.own(t, "a")
	if err := owner.Write(t.Context(), map[string][]byte{"large": noise(random, 44<<10), "small": {1}}); err != nil {
		t.Error(err)
	}
	if err := owner.Write(t.Context(), map[string][]byte{"small": {2}, "too large": noise(random, 64<<10)}); err == nil || !strings.Contains(err.Error(), `"too large"`) {
		t.Errorf("Write() of a record of 64 KiB = %v, want its name in the error", err)
	}
	if found := load(t, f.own(t, "b")); len(found) != 2 || found["small"] == "\x01" && found["large"] == "" {
		t.Errorf("got %d records after a rejected write", len(found))
	}
}

// TestClaimOfLaterTerm checks that Load fails and does not overwrite the claim if a later term
// claims a page while Load claims the pages.
func TestClaimOfLaterTerm(t *testing.T) {
	f := newFake(t)
	first := f.own(t, "a")
	later := claimOf(first.number+1, "later")
	f.meet(func(r *http.Request) fate {
		if page := f.variables[strings.TrimPrefix(r.URL.Path, "/v1/var/")]; page != nil && page.Items[claimItem] != "" {
			page.Items[claimItem] = later
			f.index++
			page.ModifyIndex = f.index
			f.fate = nil
		}
		return arrives
	})
	if err := first.Load(t.Context(), func(string, []byte) error { return nil }); !errors.Is(err, state.ErrFenced) {
		t.Errorf("Load() = %v, want %v", err, state.ErrFenced)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if claim := f.variables["hpad/test/records/prod/1/0"].Items[claimItem]; claim != later {
		t.Errorf("claim of the page = %q, want %q", claim, later)
	}
}

// TestRenewedWhileRemoved checks that a member that renews its session while another member
// removes it remains a member.
func TestRenewedWhileRemoved(t *testing.T) {
	f := newFake(t)
	owner := f.own(t, "a")
	record := itemsOf(memberRecord{Member: cluster.Member{Name: "a"}, TTL: time.Millisecond})
	f.mu.Lock()
	renewed := f.variables[owner.s.c.member("a")]
	renewed.Items = record
	f.index++
	renewed.ModifyIndex = f.index
	f.mu.Unlock()
	c := f.connect(t)
	removals := 0
	f.meet(func(r *http.Request) fate {
		if r.Method == http.MethodDelete {
			removals++
			f.index++
			renewed.ModifyIndex = f.index
			renewed.Items = itemsOf(memberRecord{Member: cluster.Member{Name: "a"}, TTL: time.Hour})
		}
		return arrives
	})
	for range 2 { // the first call sees the member for the first time
		view, err := c.View(t.Context())
		if _, is := view.Members["a"]; err != nil || !is {
			t.Errorf("View() = %+v, %v, want the member", view.Members, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	other := &session{c: c, Lease: lease.New(lease.Now(), time.Minute), name: "b", created: f.index + 1}
	if _, err := other.Acquire(t.Context(), fleet, "1"); !errors.Is(err, cluster.ErrTaken) {
		t.Errorf("Acquire() = %v, want %v", err, cluster.ErrTaken)
	}
	if removals != 1 {
		t.Errorf("attempted removals = %d, want 1", removals)
	}
}
