package members

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
)

// inTime is the maximum time from a fault until all autoscalers have been evaluated. It consists
// of a lease, a sync period and the delays of a loaded host. The model test of daemon/cluster
// checks a stricter limit under a virtual clock.
const inTime = TTL + 85*time.Second

// Fault disturbs the owner of a fleet.
type Fault struct {
	// Begin starts the fault in round n, and End ends it.
	Begin, End func(c *Cluster, owner *Member, n int)
	// Moves is true if a different member must take over the fleet. Down is true if the owner does
	// not respond during the fault.
	Moves, Down bool
	// Refusal, if not empty, is part of the owner's reported reason for not scaling during the
	// fault.
	Refusal string
}

// Faults maps names to the faults that do not depend on the store.
var Faults = map[string]Fault{
	"stopped": {
		Moves: true, Down: true,
		Begin: func(_ *Cluster, owner *Member, _ int) { owner.Signal(syscall.SIGSTOP) },
		End:   func(_ *Cluster, owner *Member, _ int) { owner.Signal(syscall.SIGCONT) },
	},
	"killed": {
		Moves: true, Down: true,
		Begin: func(_ *Cluster, owner *Member, _ int) { owner.Kill() },
		End:   func(_ *Cluster, owner *Member, _ int) { owner.Launch() },
	},
	"planned stop": {
		Moves: true, Down: true,
		Begin: func(_ *Cluster, owner *Member, _ int) { owner.Stop() },
		End:   func(_ *Cluster, owner *Member, _ int) { owner.Launch() },
	},
	"store responses lost": {
		Moves: true,
		Begin: func(c *Cluster, owner *Member, _ int) { c.Cut(owner, false, true) },
		End:   func(c *Cluster, owner *Member, _ int) { c.Cut(owner, false, false) },
	},
	"calls to the store lost": {
		Moves: true,
		Begin: func(c *Cluster, owner *Member, _ int) { c.Cut(owner, true, false) },
		End:   func(c *Cluster, owner *Member, _ int) { c.Cut(owner, false, false) },
	},
	"between members": {
		Begin: func(c *Cluster, owner *Member, n int) { c.fronts[owner.Name].Drop(n%2 == 0, n%2 != 0) },
		End:   func(c *Cluster, owner *Member, _ int) { c.fronts[owner.Name].Drop(false, false) },
	},
	"store unreachable": {
		Refusal: "NotOwner",
		Begin: func(c *Cluster, _ *Member, n int) {
			c.cutAll(true)
			if n == 0 {
				time.Sleep(5 * TTL)
			}
		},
		End: func(c *Cluster, _ *Member, n int) {
			if n == 0 {
				time.Sleep(soak.Rounds(0, 2*time.Minute))
			}
			c.cutAll(false)
		},
	},
}

func (c *Cluster) cutAll(cut bool) {
	for _, m := range c.Members {
		c.Cut(m, cut, cut)
	}
}

// Job numbers. The job growing follows its load. The stabilization window of kept prevents a
// scale-down from keptCount. The autoscaler of paused is paused.
const (
	growing, kept, paused = 1, 2, 3
	keptCount             = 20
)

func autoscaler(job int) string { return fmt.Sprint("alpha-", job) }

// rounds is a cluster in which a fault is repeated.
type rounds struct {
	*Cluster
	fault Fault
	// before maps autoscalers to their counts before the round.
	before map[string]int
	// longest is the maximum time from a fault to the next evaluation of an autoscaler.
	longest time.Duration

	mu sync.Mutex
	// counts maps jobs to the last accepted count.
	counts map[string]int64
	// wrong lists the invalid writes.
	wrong []string
}

// Rounds repeats a fault of a fleet's owner: twice, because some faults have two variants, and more
// often in make soak, in two clusters. prepare returns the fault, and the options for the given
// cluster name; Rounds sets Watch and Windows itself.
//
// After each round, Rounds checks that every autoscaler of the fleet has been evaluated within
// inTime, and that each count has been written once and only by the owner according to the store.
// The window, the pause and the timestamps must be unchanged. During a takeover, during the fault
// and after it, Rounds compares the autoscaler lists of all running members with the platforms.
func Rounds(t *testing.T, prepare func(t *testing.T, cluster string) (Fault, Options)) {
	t.Helper()
	for n := range soak.Rounds(1, 2) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			fault, options := prepare(t, config.AdaptName(t.Name()))
			r := open(t, fault, options)
			for n := range soak.Rounds(2, 100) {
				r.round(n)
			}
			t.Logf("longest time until the next evaluation: %s", r.longest)
		})
	}
}

func open(t *testing.T, fault Fault, options Options) *rounds {
	t.Helper()
	r := &rounds{fault: fault, counts: map[string]int64{}}
	options.Watch, options.Windows = r.watch, map[int]string{growing: "0s"}
	r.Cluster = New(t, options)
	r.Start(2)
	r.Spread()
	w := r.Worlds["alpha"]
	owner, _ := r.OwnerOf("alpha")
	r.Paused(owner, autoscaler(paused))
	r.Follows("alpha", growing, 6) // ensures that the store contains the autoscaler
	r.Follows("alpha", kept, keptCount)
	r.Evaluated(owner, autoscaler(kept))
	r.listed(0, owner, time.Time{}, true) // after a late write, the status contains the count only when the deployment ends
	w.Ask(kept, 1)
	w.Ask(paused, 9)
	return r
}

// watch records the accepted counts and checks that only the owner writes them.
func (r *rounds) watch(fleet string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet || !strings.HasSuffix(request.URL.Path, "/scale") {
			next.ServeHTTP(w, request)
			return
		}
		body, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(body))
		var scale struct{ Count *int64 }
		_ = json.Unmarshal(body, &scale) // a request without a count is an event
		if scale.Count != nil && !r.ownerWrites(request.Context(), request.Header.Get("X-Nomad-Token"), fleet) {
			panic(http.ErrAbortHandler)
		}
		answer := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(answer, request)
		if scale.Count == nil || answer.code != http.StatusOK {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.counts[request.URL.Path+fleet] == *scale.Count {
			r.wrong = append(r.wrong, fmt.Sprintf("%s of %s was set to %d twice", request.URL.Path, fleet, *scale.Count))
		}
		r.counts[request.URL.Path+fleet] = *scale.Count
	})
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// ownerWrites records an invalid write if the member does not own the fleet according to the store.
// It retries View until it succeeds. It returns false only if ctx ends first, because the member
// has given up.
func (r *rounds) ownerWrites(ctx context.Context, member, fleet string) bool {
	for {
		view, err := r.options.View(ctx)
		if err == nil {
			if owner := view.Fleets[fleet].Owner; owner != member {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.wrong = append(r.wrong, fmt.Sprintf("%q wrote a count of %s, but the owner is %q", member, fleet, owner))
			}
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// round runs one round.
func (r *rounds) round(n int) {
	t := r.t
	owner, other := r.OwnerOf("alpha")
	before, err := api.Get[api.Autoscaler](t.Context(), owner.Client, api.Path("autoscalers", autoscaler(growing)), nil)
	if err != nil {
		t.Fatal(err)
	}
	next := 9 - 3*(n%2)
	r.before = map[string]int{}
	for fleet, w := range r.Worlds {
		for job := range Jobs {
			r.before[fmt.Sprintf("%s-%d", fleet, job)] = w.Truth(job).Count
		}
	}

	began := time.Now()
	r.fault.Begin(r.Cluster, owner, n)
	by := owner
	if r.fault.Moves {
		by = other
		r.takenOver(n, owner, other)
	}
	for job := range Jobs {
		r.evaluatedAfter(by, autoscaler(job), began)
	}
	if r.fault.Refusal != "" {
		r.refused(n, owner, next)
	} else {
		r.Follows("alpha", growing, next)
	}
	r.listed(n, other, began, false)
	if !r.fault.Down {
		r.listed(n, owner, began, false)
	}
	r.fault.End(r.Cluster, owner, n)
	ended := time.Now()
	r.listed(n, owner, began, false)
	r.Follows("alpha", growing, next)
	r.Spread()
	r.listed(n, owner, ended, true)
	r.check(n, r.listed(n, other, ended, true), before)
}

// takenOver waits until another member, by, reports that owner no longer owns the fleet. Until
// then, each row in its list that is not evaluated must have the last known status.
func (r *rounds) takenOver(n int, owner, by *Member) {
	r.t.Helper()
	r.Await("another owner", func() (string, bool) {
		list, err := by.Client.Autoscalers(r.t.Context())
		for i := range list {
			row := &list[i]
			if row.Evaluation.Unevaluated && !r.isLast(row) {
				r.t.Fatalf("round %d: %s lists %+v", n, by.Name, row)
			}
		}
		now := r.Owners(by)["alpha"]
		return fmt.Sprint(now, err), now != "" && now != owner.Name
	})
}

func (r *rounds) truth(row *api.Autoscaler) int {
	fleet, job, _ := strings.Cut(row.Name, "-")
	number, _ := strconv.Atoi(job)
	return r.Worlds[fleet].Truth(number).Count
}

// isLast reports whether a row that is not evaluated has the last known status: the pauses, and the
// current count, the count before the round, or 0 if the count is unknown. If the last pass wrote
// the current count, the row may contain the count that this pass read before its write. If the
// member has no status, the row must contain only the configuration.
func (r *rounds) isLast(row *api.Autoscaler) bool {
	count, e := int(row.Status.CurrentReplicas), row.Evaluation
	if e.Last.IsZero() {
		return row.Created.IsZero() && count == 0
	}
	counted := count == 0 || count == r.truth(row) || count == r.before[row.Name]
	written := e.Written != nil && int(*e.Written) == r.truth(row)
	return (counted || written) && (len(row.Pauses) == 1) == (row.Name == autoscaler(paused))
}

// listed waits until the autoscaler list of a member is correct, and returns its rows by name. Each
// autoscaler must have been evaluated after since and have the platform's count. If known is false,
// a row may have an error instead; if it is also not evaluated, it must have the last known status.
// The list must always contain all autoscalers.
func (r *rounds) listed(n int, m *Member, since time.Time, known bool) map[string]api.Autoscaler {
	r.t.Helper()
	rows := map[string]api.Autoscaler{}
	r.Await("correct list of "+m.Name, func() (string, bool) {
		list, err := m.Client.Autoscalers(r.t.Context())
		if err != nil {
			return err.Error(), false
		}
		clear(rows)
		var wrong []string
		for i := range list {
			row := &list[i]
			rows[row.Name] = *row
			e := row.Evaluation
			right := int(row.Status.CurrentReplicas) == r.truth(row) && e.Last.After(since) && (len(row.Pauses) == 1) == (row.Name == autoscaler(paused))
			if e.Error != "" {
				right = !known && (!e.Unevaluated || r.isLast(row))
			}
			if !right {
				wrong = append(wrong, fmt.Sprintf("%s with %d replicas is %+v, %+v, %+v", row.Name, r.truth(row), e, row.Status, row.Pauses))
			}
		}
		if len(rows) != len(r.Worlds)*Jobs {
			r.t.Fatalf("round %d: %s lists %d autoscalers", n, m.Name, len(rows))
		}
		return strings.Join(wrong, "; "), len(wrong) == 0
	})
	return rows
}

// refused changes the load and waits until the owner reports the reason for not scaling.
func (r *rounds) refused(n int, owner *Member, count int) {
	t, w := r.t, r.Worlds["alpha"]
	t.Helper()
	was := w.Truth(growing).Count
	w.Ask(growing, count)
	asked := time.Now()
	r.Await("the reason for not scaling", func() (string, bool) {
		view, err := api.Get[api.Autoscaler](t.Context(), owner.Client, api.Path("autoscalers", autoscaler(growing)), nil)
		if err != nil {
			return err.Error(), false
		}
		found, err := api.Get[api.Cluster](t.Context(), owner.Client, api.Path("cluster"), nil)
		said := fmt.Sprintf("%+v, %s, %v", view.Evaluation, found.Problem, err)
		return said, view.Evaluation.Last.After(asked) && strings.Contains(said, r.fault.Refusal)
	})
	if got := w.Truth(growing).Count; got != was {
		t.Errorf("round %d: got %d replicas during the fault, want %d", n, got, was)
	}
}

// evaluatedAfter waits for an evaluation after a fault and checks its delay.
func (r *rounds) evaluatedAfter(m *Member, name string, began time.Time) {
	r.t.Helper()
	r.EvaluatedAfter(m, name, began)
	took := time.Since(began)
	if r.longest = max(r.longest, took); took > inTime {
		r.t.Errorf("%s was evaluated %s after the fault, want at most %s", name, took, inTime)
	}
}

// check compares the list after a round with the state before the round.
func (r *rounds) check(n int, rows map[string]api.Autoscaler, before api.Autoscaler) {
	t := r.t
	t.Helper()
	after := rows[autoscaler(growing)]
	if !after.Created.Equal(before.Created) || after.Status.LastScaleTime.Before(before.Status.LastScaleTime) {
		t.Errorf("round %d: created %s and scaled %s, want %s and %s", n, after.Created, after.Status.LastScaleTime, before.Created, before.Status.LastScaleTime)
	}
	if pauses := rows[autoscaler(paused)].Pauses; pauses[0].Reason != "moving house" {
		t.Errorf("round %d: got pauses %+v", n, pauses)
	}
	w := r.Worlds["alpha"]
	if got := w.Truth(kept).Count; got != keptCount {
		t.Errorf("round %d: got %d replicas, want %d because of the window", n, got, keptCount)
	}
	if got, want := w.Truth(paused).Count, sim.Base(paused); got != want {
		t.Errorf("round %d: got %d paused replicas, want %d", n, got, want)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wrong := range r.wrong {
		t.Errorf("round %d: %s", n, wrong)
	}
	if t.Failed() {
		t.FailNow()
	}
}
