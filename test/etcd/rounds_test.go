package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/web/webtest"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
)

// inTime is how long after a fault all autoscalers are evaluated again: a lease, a
// period, and what looks, calls and a machine take that is busy with other tests. The model
// of daemon/cluster, whose time is its own, holds them to less.
const inTime = members.TTL + 85*time.Second

// rounds is a cluster whose fleets go through a fault again and again.
type rounds struct {
	*shop
	etcd *clientv3.Client

	// longest is how long it took at most until an autoscaler was evaluated again.
	longest time.Duration

	mu sync.Mutex
	// counts are those that fleets' jobs have by the writes that were accepted.
	counts map[string]int64
	// wrong is what members did that none may.
	wrong []string
}

// The jobs of a fleet in rounds: one that grows and shrinks, one whose window keeps it large, and one
// that somebody paused.
const (
	growing, kept, paused = 1, 2, 3
	keptCount             = 20
)

// fault is what happens to the owner of a fleet in each round.
type fault struct {
	begin, end func(r *rounds, owner, other *members.Member, n int)
	// moves says that another member takes over, still that nothing may be scaled.
	moves, still bool
	// servers are started with args.
	args   []string
	secure bool
}

var faults = map[string]fault{
	"stopped": {
		moves: true,
		begin: func(_ *rounds, owner, _ *members.Member, _ int) { owner.Signal(syscall.SIGSTOP) },
		end:   func(_ *rounds, owner, _ *members.Member, _ int) { owner.Signal(syscall.SIGCONT) },
	},
	"killed": {
		moves: true,
		begin: func(_ *rounds, owner, _ *members.Member, _ int) { owner.Kill() },
		end:   func(_ *rounds, owner, _ *members.Member, _ int) { owner.Launch() },
	},
	"etcd's answers lost": {
		moves: true,
		begin: func(r *rounds, owner, _ *members.Member, _ int) { r.cut(owner, false, true) },
		end:   func(r *rounds, owner, _ *members.Member, _ int) { r.cut(owner, false, false) },
	},
	"calls to etcd lost": {
		moves: true,
		begin: func(r *rounds, owner, _ *members.Member, _ int) { r.cut(owner, true, false) },
		end:   func(r *rounds, owner, _ *members.Member, _ int) { r.cut(owner, false, false) },
	},
	"between members": {
		begin: func(r *rounds, owner, _ *members.Member, n int) { r.fronts[owner.Name].Drop(n%2 == 0, n%2 != 0) },
		end:   func(r *rounds, owner, _ *members.Member, _ int) { r.fronts[owner.Name].Drop(false, false) },
	},
	"etcd is full": {
		still: true, args: []string{"--quota-backend-bytes", fmt.Sprint(quota)},
		begin: func(r *rounds, _, _ *members.Member, _ int) { r.fill() },
		end:   func(r *rounds, _, _ *members.Member, _ int) { r.empty() },
	},
	"certificate expired": {
		moves: true, secure: true,
		begin: func(r *rounds, owner, _ *members.Member, _ int) {
			r.store.Secure.Authority.IssueExpired(r.t, owner.Name)
			for _, relay := range r.relays[owner.Name] {
				relay.Reset()
			}
		},
		end: func(r *rounds, owner, _ *members.Member, _ int) { r.store.Secure.Authority.Issue(r.t, owner.Name) },
	},
}

// TestRounds has each of the faults happen to the owner of a fleet many times. After each
// the fleet's autoscalers are evaluated in time by one member, no count was written but by
// the owner, none twice, and window, pause and times are what they were.
func TestRounds(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRounds(t, f)
			for n := range soak.Rounds(20, 200) {
				r.round(n, f)
			}
			t.Logf("evaluated again after %s at most", r.longest)
		})
	}
}

func openRounds(t *testing.T, f fault) *rounds {
	t.Helper()
	r := &rounds{counts: map[string]int64{}}
	var store *etcdtest.Cluster
	if f.secure {
		secure := etcdtest.Secure{Authority: webtest.NewAuthority(t, t.TempDir(), "ca"), Username: "hpad", Password: "secret"}
		store = etcdtest.StartSecure(t, secure)
		r.etcd = store.ClientOf(0, "root", secure.Password)
	} else {
		store = etcdtest.Start(t, 3, f.args...)
		r.etcd = store.Client(0)
	}
	r.shop = open(t, store, members.Options{Watch: r.watch, Windows: map[int]string{growing: "0s"}})
	r.Start(2)
	r.settled(2)
	w := r.Worlds["alpha"]
	owner, _ := r.OwnerOf("alpha")
	r.Paused(owner, autoscaler(paused))
	r.Follows("alpha", kept, keptCount)
	r.Evaluated(owner, autoscaler(kept))
	w.Ask(kept, 1)
	w.Ask(paused, 9)
	return r
}

func autoscaler(job int) string { return fmt.Sprint("alpha-", job) }

// watch notes who writes counts of a fleet, and what was accepted.
func (r *rounds) watch(fleet string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet || !strings.HasSuffix(request.URL.Path, "/scale") {
			next.ServeHTTP(w, request)
			return
		}
		body, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(body))
		var scale struct{ Count *int64 }
		_ = json.Unmarshal(body, &scale) // without a count it is an event
		if scale.Count != nil {
			r.wantOwner(request.Header.Get("X-Nomad-Token"), fleet)
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

// wantOwner asks etcd whether a member that is about to write owns the fleet.
func (r *rounds) wantOwner(member, fleet string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, err := r.etcd.Get(ctx, "/hpad/hpad/owners/"+fleet)
	owner := ""
	if err == nil && len(found.Kvs) > 0 {
		owner = string(found.Kvs[0].Value)
	}
	if err != nil || owner != member {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrong = append(r.wrong, fmt.Sprintf("%q wrote a count of %s, whose owner is %q, %v", member, fleet, owner, err))
	}
}

// settled waits until there are so many members, and each fleet has the owner that it is
// to have.
func (r *rounds) settled(count int) {
	r.t.Helper()
	r.Await("all members, and fleets that stay", func() (string, bool) {
		for _, m := range r.Members {
			found, err := m.Client.Cluster(r.t.Context())
			if err != nil || len(found.Members) != count || found.Problem != "" || len(found.Fleets) != len(members.Fleets) {
				return fmt.Sprintf("%s has %+v, %v", m.Name, found, err), false
			}
			for _, fleet := range found.Fleets {
				if fleet.Owner == "" || fleet.Owner != fleet.Next {
					return fmt.Sprintf("%s has %+v", m.Name, fleet), false
				}
			}
		}
		return "", true
	})
}

// round has the fault happen once.
func (r *rounds) round(n int, f fault) {
	t := r.t
	owner, other := r.OwnerOf("alpha")
	before, err := owner.Client.Autoscaler(t.Context(), autoscaler(growing))
	if err != nil {
		t.Fatal(err)
	}
	count := r.Worlds["alpha"].Truth(growing).Count
	next := 6 + 3*(n%2)

	began := time.Now()
	f.begin(r, owner, other, n)
	by := owner
	if f.moves {
		by = other
		r.TakenOver("alpha", owner, other)
	}
	for job := range members.Jobs {
		r.evaluatedAfter(by, autoscaler(job), began)
	}
	if f.still {
		r.Worlds["alpha"].Ask(growing, next)
		r.Await("why nothing is scaled", func() (string, bool) {
			view, err := by.Client.Autoscaler(t.Context(), autoscaler(growing))
			return fmt.Sprintf("%+v, %v", view.Evaluation, err), err == nil && strings.Contains(view.Evaluation.Error, "quota")
		})
		if got := r.Worlds["alpha"].Truth(growing).Count; got != count {
			t.Errorf("round %d: %d replicas while nothing can be written, want %d", n, got, count)
		}
	} else {
		r.Follows("alpha", growing, next)
	}
	f.end(r, owner, other, n)
	r.Follows("alpha", growing, next)
	r.settled(2)
	r.check(n, other, before)
}

// evaluatedAfter waits for a pass after a fault, which has to be in time.
func (r *rounds) evaluatedAfter(m *members.Member, name string, began time.Time) {
	r.t.Helper()
	r.EvaluatedAfter(m, name, began)
	took := time.Since(began)
	if r.longest = max(r.longest, took); took > inTime {
		r.t.Errorf("%s is evaluated %s after the fault, want within %s", name, took, inTime)
	}
}

// check holds what is there after a round to what was before.
func (r *rounds) check(n int, by *members.Member, before api.Autoscaler) {
	t := r.t
	t.Helper()
	after := r.Evaluated(by, autoscaler(growing))
	if !after.Created.Equal(before.Created) || after.Status.LastScaleTime.Before(before.Status.LastScaleTime) {
		t.Errorf("round %d: created %s and scaled %s, before %s and %s", n, after.Created, after.Status.LastScaleTime, before.Created, before.Status.LastScaleTime)
	}
	if held := r.Evaluated(by, autoscaler(paused)); len(held.Pauses) != 1 || held.Pauses[0].Reason != "moving house" {
		t.Errorf("round %d: the pauses are %+v", n, held.Pauses)
	}
	w := r.Worlds["alpha"]
	if got := w.Truth(kept).Count; got != keptCount {
		t.Errorf("round %d: %d replicas, which the window keeps at %d", n, got, keptCount)
	}
	if got, want := w.Truth(paused).Count, sim.Base(paused); got != want {
		t.Errorf("round %d: %d replicas of what is paused, want %d", n, got, want)
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

// quota is how many bytes a store may have that is to be full.
const quota = 16 << 20

// fill writes until etcd's quota is used up.
func (r *rounds) fill() {
	r.t.Helper()
	value := strings.Repeat("x", 1<<20)
	for i := range 10 * quota >> 20 {
		full := false
		etcdtest.Do(r.t, "fill etcd", func() error {
			_, err := r.etcd.Put(r.t.Context(), fmt.Sprint("/junk/", i), value)
			if full = errors.Is(err, rpctypes.ErrNoSpace); full {
				return nil
			}
			return err
		})
		if full {
			return
		}
	}
	r.t.Fatal("etcd is never full")
}

// empty does what a person does then.
func (r *rounds) empty() {
	r.t.Helper()
	ctx, client, revision := r.t.Context(), r.etcd, int64(0)
	etcdtest.Do(r.t, "delete", func() error {
		deleted, err := client.Delete(ctx, "/junk/", clientv3.WithPrefix())
		if err == nil {
			revision = deleted.Header.Revision
		}
		return err
	})
	etcdtest.Do(r.t, "compact", func() error {
		_, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical())
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil
		}
		return err
	})
	for _, endpoint := range r.store.Endpoints {
		etcdtest.Do(r.t, "defragment", func() error { _, err := client.Defragment(ctx, endpoint); return err })
	}
	etcdtest.Do(r.t, "disarm", func() error { _, err := client.AlarmDisarm(ctx, new(clientv3.AlarmMember)); return err })
}
