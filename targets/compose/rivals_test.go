package compose

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

// The tests of this file change a service as Compose does, exactly between two calls
// of hpad's.

// calls are those that an engine takes, from 1 on, and what happens before some.
type calls struct {
	mu     sync.Mutex
	taken  int
	before map[int]func()
}

// count begins to count the engine's calls anew; each of the functions is run once
// before the call of its number.
func (i *imitation) count(before map[int]func()) *calls {
	c := &calls{before: before}
	i.with(func() {
		i.refuse = func(*http.Request) (int, string) {
			c.mu.Lock()
			c.taken++
			do := c.before[c.taken]
			c.mu.Unlock()
			if do != nil {
				do()
			}
			return 0, ""
		}
	})
	return c
}

// end returns how many calls there were, and runs what would have come before later
// ones.
func (c *calls) end() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(c.before)) {
		if n > c.taken {
			c.before[n]()
		}
	}
	c.before = nil
	return c.taken
}

// seen returns the ids of a project's containers, as Compose sees them when it
// begins.
func (i *imitation) seen(project string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var ids []string
	for _, c := range i.containers {
		if c.Config.Labels[labelProject] == project {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// beginRenewal makes the container that is to replace another one of a service, as
// "docker compose up" does, and returns it; nil when that one is gone.
func (i *imitation) beginRenewal(s service, id string) *imitated {
	old := i.find(id)
	if old == nil {
		return nil
	}
	next := s.replica(old.number())
	next.Name = "/" + id[:12] + "_" + strings.TrimPrefix(next.Name, "/")
	next.Image = i.images[next.Config.Image]
	next.Config.Labels[labelImage] = next.Image
	next.Config.Labels[labelReplace] = fmt.Sprintf("%s-%d", s.name, old.number())
	i.add(next)
	return next
}

// endRenewal puts it in the other one's place.
func (i *imitation) endRenewal(id string, next *imitated) {
	if old := i.find(id); old != nil && next != nil {
		i.drop(old)
		next.Name = "/" + next.Name[14:]
		next.start()
	}
}

// renew does what "docker compose up" does to those of a service's containers that it
// saw when it began, and returns the new ones.
func (i *imitation) renew(s service, seen []string) (made []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := map[string]*imitated{}
	for _, id := range seen {
		if next[id] = i.beginRenewal(s, id); next[id] != nil {
			made = append(made, next[id].ID)
		}
	}
	for _, id := range seen {
		i.endRenewal(id, next[id])
	}
	return made
}

// takeDown does what "docker compose down" does to the containers that it saw when
// it began, and to the network where it is free.
func (i *imitation) takeDown(project string, seen []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range seen {
		if c := i.find(id); c != nil {
			i.drop(c)
		}
	}
	used := slices.ContainsFunc(i.containers, func(c *imitated) bool {
		return c.Config.Labels[labelProject] == project && c.State.Status == container.StateRunning
	})
	if !used {
		i.networks[project+"_default"] = false
	}
}

// die leaves a call without a response, and all later ones; not one that nobody waits
// for any more, once the next hpad is there.
func (i *imitation) die() {
	i.with(func() { i.broken = i.refuse != nil })
	panic(http.ErrAbortHandler)
}

// hashes returns the configurations of the service's containers, by number.
func hashes(i *imitation) []string {
	var found []string
	for _, c := range i.of("shop", "web") {
		found = append(found, c.Config.Labels[labelHash])
	}
	return found
}

// quietly lets the time pass during which Compose could still be at work.
func quietly(f *Fleet) {
	f.copies.mu.Lock()
	defer f.copies.mu.Unlock()
	for k, last := range f.copies.last {
		last.seen = last.seen.Add(-renewalQuiet)
		f.copies.last[k] = last
	}
	clear(f.copies.failed)
}

// settled reads and scales as an autoscaler that wants n replicas, until all
// containers that are there have a configuration.
func settled(t *testing.T, i *imitation, f *Fleet, n int32, hash string) {
	t.Helper()
	wait.Soon(t, fmt.Sprintf("%d containers of %s", n, hash), func() bool {
		got := read(t, f)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if got.SpecReplicas > n {
			t.Fatalf("the service is read with %d replicas, more than the %d that anybody asked for: %q", got.SpecReplicas, n, names(i))
		}
		quietly(f)
		if got.SpecReplicas < n && got.Hold == nil {
			if err := f.SetReplicas(t.Context(), web, n, got.Version, "a test asks"); err != nil && !errors.Is(err, targets.ErrConflict) {
				t.Fatal(err)
			}
		}
		found := hashes(i)
		return len(found) == int(n) && !slices.ContainsFunc(found, func(found string) bool { return found != hash })
	})
}

// wholeWrite returns how many calls the engine takes of a write that nobody
// disturbs.
func wholeWrite(t *testing.T) int {
	t.Helper()
	fewest := math.MaxInt // others have calls of the reading before among them
	for range 3 {
		i := newImitation(t)
		i.up(service{project: "shop", name: "web"}, 2)
		f := started(t, i, &targettest.Store{})
		read(t, f)
		c := i.count(nil)
		mustScale(t, f, 4)
		fewest = min(fewest, c.end())
	}
	return fewest
}

// TestRenewedMeanwhile holds that no replica of an old configuration stays, however
// "docker compose up" and hpad's calls follow each other: it sees the containers
// before one of them and has renewed those before another one. What Compose made
// stays as it is.
func TestRenewedMeanwhile(t *testing.T) {
	whole := wholeWrite(t)
	for first := 1; first <= whole; first++ {
		for last := first; last <= whole+1; last++ {
			t.Run(fmt.Sprintf("from %d to %d", first, last), func(t *testing.T) {
				t.Parallel()
				i := newImitation(t)
				s := service{project: "shop", name: "web"}
				i.up(s, 2)
				s.hash = "hash-2"
				f := started(t, i, &targettest.Store{})
				version := read(t, f).Version
				var seen, made []string
				see, renew := func() { seen = i.seen("shop") }, func() { made = i.renew(s, seen) }
				before := map[int]func(){first: see, last: renew}
				if first == last {
					before[first] = func() { see(); renew() }
				}
				c := i.count(before)
				err := f.SetReplicas(t.Context(), web, 4, version, "a test asks")
				c.end()
				var partial *targets.PartialError
				if err != nil && !errors.As(err, &partial) && !errors.Is(err, targets.ErrConflict) {
					t.Errorf("SetReplicas() = %v, want a part or a conflict", err)
				}
				settled(t, i, f, 4, "hash-2")
				there := i.seen("shop")
				for _, id := range made {
					if !slices.Contains(there, id) {
						t.Errorf("a container that Compose made is gone: there are %q", names(i))
					}
				}
			})
		}
	}
}

// TestRenewalUnderWay holds that a renewal which hpad comes upon is waited for, that
// it leaves alone what Compose may be renewing, and that what Compose leaves it
// replaces, once.
func TestRenewalUnderWay(t *testing.T) {
	i := newImitation(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 2)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	fresh := s
	fresh.hash = "hash-2"
	var old, next *imitated
	starts := 0
	i.with(func() {
		i.refuseStart = func(c *imitated) string { // under the lock
			switch starts++; starts {
			case 1: // the first new one is there, and no container of Compose's is newer
			case 2:
				old = i.replicas("shop", "web")[0]
				next = i.beginRenewal(fresh, old.ID)
			}
			return ""
		}
	})
	err := scale(t, f, 5)
	var partial *targets.PartialError
	if !errors.As(err, &partial) || partial.Reached != 4 || errors.Is(err, targets.ErrHeld) || !strings.Contains(err.Error(), ComposeUpdateInProgress) {
		t.Errorf("SetReplicas() = %v, want a part of 4 and %s", err, ComposeUpdateInProgress)
	}
	quietly(f)
	got := read(t, f)
	if got.Hold == nil || got.Hold.Reason != ComposeUpdateInProgress {
		t.Errorf("the hold is %+v, want %s", got.Hold, ComposeUpdateInProgress)
	}
	if err := scale(t, f, 6); !errors.Is(err, targets.ErrHeld) {
		t.Errorf("SetReplicas() = %v, want ErrHeld", err)
	}
	i.with(func() { i.endRenewal(old.ID, next) })
	if got := hashes(i); !slices.Equal(got, []string{"hash-2", "hash-1", "hash-1", "hash-1"}) {
		t.Fatalf("configurations %q: hpad touched what Compose was about to renew", got)
	}
	got = read(t, f)
	told := slices.ContainsFunc(got.Notices, func(n policy.Notice) bool {
		return n.Condition == ObsoleteReplicas && strings.Contains(n.Message, "shop-web-3, shop-web-4") && !strings.Contains(n.Message, "shop-web-2")
	})
	if got.SpecReplicas != 4 || !told {
		t.Errorf("spec %d with notices %+v, want 4 and that shop-web-3 and -4 are obsolete", got.SpecReplicas, got.Notices)
	}
	if slices.Contains(names(i), "shop-web-5") {
		t.Error("replicas are replaced while Compose may be at work")
	}
	quietly(f)
	wait.Soon(t, "replacement", func() bool {
		got := read(t, f)
		if got.SpecReplicas != 4 || got.StatusReplicas != 4 {
			t.Fatalf("spec %d and status %d while replicas are replaced, want 4", got.SpecReplicas, got.StatusReplicas)
		}
		return slices.Equal(names(i), []string{"shop-web-1", "shop-web-2", "shop-web-5", "shop-web-6"})
	})
	wait.Soon(t, "end of the notice", func() bool { return len(read(t, f).Notices) == 0 })
	// The second is Compose's own, and nobody asked hpad to renew it.
	if got := hashes(i); !slices.Equal(got, []string{"hash-2", "hash-1", "hash-2", "hash-2"}) {
		t.Errorf("configurations %q", got)
	}
}

// TestListBesideReplacement holds that a replica and the one that takes its place
// count as one in every list, whenever it was made.
func TestListBesideReplacement(t *testing.T) {
	k := key{"shop", "web"}
	for _, test := range []struct {
		name                  string
		asked                 bool // after the old one was to go
		created, noted, given bool // the new one, before the list or after it
		want                  []string
	}{
		{"before", false, false, false, false, []string{"old"}},
		{"created", false, true, false, false, []string{"old"}},
		{"noted", false, true, true, false, []string{"old"}},
		{"in its place", false, true, true, true, []string{"new"}},
		{"in its place, not in the list", false, false, true, true, []string{"old"}},
		{"removed since", true, false, true, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, c := newRemovals(&targettest.Store{}), newCopies(&targettest.Store{})
			making := func(id string) *member {
				m := &member{key: k, name: "shop-web-" + id}
				m.ID, m.State = id, container.StateRunning
				return m
			}
			members := []*member{making("old")}
			c.note(t.Context(), k, "old", copied{Made: time.Now()})
			c.replace(k, map[string]string{"shop-web-new": "old"})
			if test.created {
				members = append(members, making("new"))
			}
			if test.noted {
				c.note(t.Context(), k, "new", copied{Made: time.Now(), Instead: "old"})
			}
			if test.given {
				if err := r.doom(t.Context(), k, members[:1]); err != nil {
					t.Fatal(err)
				}
				c.forget(t.Context(), k, "old")
				c.replace(k, nil)
			}
			before := map[string]bool{"old": test.asked}
			l := &listing{services: map[key][]*member{k: members}}
			r.mark(l, before, true)
			c.mark(l, before)
			var got []string
			for _, m := range counted(members) {
				got = append(got, m.ID)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q count, want %q", got, test.want)
			}
		})
	}
}

// TestReplacementFails holds that an obsolete replica stays until another one has
// started in its place, that its notice says why none has, and that hpad does not try
// again at once.
func TestReplacementFails(t *testing.T) {
	i := newImitation(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 2)
	fresh := s
	fresh.hash = "hash-2"
	i.renew(fresh, i.seen("shop")[:1])
	i.with(func() { i.refuseStart = func(*imitated) string { return "no such device" } })
	read(t, f)
	quietly(f)
	wait.Soon(t, "message", func() bool {
		return slices.ContainsFunc(read(t, f).Notices, func(n policy.Notice) bool {
			return n.Condition == ObsoleteReplicas && strings.Contains(n.Message, "no such device")
		})
	})
	tried := func() int {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.calls["POST containers/create"]
	}
	before := tried()
	for range 3 {
		if got := read(t, f); got.SpecReplicas != 2 {
			t.Errorf("spec %d, want 2", got.SpecReplicas)
		}
	}
	wantNames(t, i, "shop-web-1", "shop-web-2")
	if tried() != before {
		t.Error("it is tried again at once")
	}
	i.with(func() { i.refuseStart = nil })
	quietly(f)
	settled(t, i, f, 2, "hash-2")
}

// TestNoRoomBeside holds that a replica is replaced also where the range of ports
// has no room for one more.
func TestNoRoomBeside(t *testing.T) {
	i := newImitation(t)
	s := full()
	i.networks["shop_front"], i.networks["shop_back"] = true, true
	s.ports = nat.PortMap{"80/tcp": {{HostPort: "8000-8001"}}}
	i.up(s, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 2)
	s.hash = "hash-2"
	i.renew(s, i.seen("shop")[:1])
	settled(t, i, f, 2, "hash-2")
}

// TestKilledWhileRenewed holds that the next hpad finishes what one had begun that
// was killed before any of its calls.
func TestKilledWhileRenewed(t *testing.T) {
	whole := wholeWrite(t)
	for last := 1; last <= whole; last++ {
		t.Run(fmt.Sprintf("before call %d", last), func(t *testing.T) {
			t.Parallel()
			i := newImitation(t)
			s := service{project: "shop", name: "web"}
			i.up(s, 2)
			seen := i.seen("shop")
			store := &targettest.Store{}
			killed := started(t, i, store)
			read(t, killed)
			i.count(map[int]func(){last: i.die})
			if err := scale(t, killed, 4); err == nil {
				t.Fatal("a write to a broken engine succeeds")
			}
			if err := killed.Close(); err != nil {
				t.Fatal(err)
			}
			i.with(func() { i.broken, i.refuse = false, nil })
			s.hash = "hash-2"
			i.renew(s, seen)
			f := started(t, i, store)
			settled(t, i, f, 4, "hash-2")
		})
	}
}

// TestKilledWhileReplacing holds that the next hpad finishes what one had begun that
// was killed while it replaced an obsolete replica, and that both count as one.
func TestKilledWhileReplacing(t *testing.T) {
	for last := 1; last <= 16; last++ { // a reading and the replacement take as many
		t.Run(fmt.Sprintf("before call %d", last), func(t *testing.T) {
			t.Parallel()
			i := newImitation(t)
			s := service{project: "shop", name: "web"}
			i.up(s, 1)
			store := &targettest.Store{}
			killed := started(t, i, store)
			read(t, killed)
			mustScale(t, killed, 2)
			s.hash = "hash-2"
			i.renew(s, i.seen("shop")[:1])
			read(t, killed)
			quietly(killed)
			c := i.count(map[int]func(){last: i.die})
			over := func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.taken >= last || slices.Equal(hashes(i), []string{"hash-2", "hash-2"})
			}
			wait.Soon(t, "call or the end", func() bool {
				_, _ = killed.Snapshot(t.Context(), []targets.Ref{web})
				return over()
			})
			if err := killed.Close(); err != nil {
				t.Fatal(err)
			}
			i.with(func() { i.broken, i.refuse = false, nil })
			settled(t, i, started(t, i, store), 2, "hash-2")
		})
	}
}

// TestTakenDownMeanwhile holds that nothing is left of a project that "docker compose
// down" removes while hpad makes replicas, however both follow each other, that
// nothing is made any more, and that the next reading says so.
func TestTakenDownMeanwhile(t *testing.T) {
	whole := wholeWrite(t)
	for first := 1; first <= whole; first++ {
		for last := first; last <= whole+1; last++ {
			t.Run(fmt.Sprintf("from %d to %d", first, last), func(t *testing.T) {
				t.Parallel()
				i := newImitation(t)
				i.up(service{project: "shop", name: "web"}, 2)
				f := started(t, i, &targettest.Store{})
				version := read(t, f).Version
				var seen []string
				see, takeDown := func() { seen = i.seen("shop") }, func() { i.takeDown("shop", seen) }
				before := map[int]func(){first: see, last: takeDown}
				if first == last {
					before[first] = func() { see(); takeDown() }
				}
				c := i.count(before)
				_ = f.SetReplicas(t.Context(), web, 4, version, "a test asks")
				c.end()
				got := read(t, f)
				if !errors.Is(got.Err, targets.ErrTargetNotFound) || targets.Reason(got.Err) != ProjectRemoved || !strings.Contains(got.Err.Error(), `"docker compose up -d" brings it back`) {
					t.Errorf("the reading says %v with reason %q, want %s", got.Err, targets.Reason(got.Err), ProjectRemoved)
				}
				wantNames(t, i)
				if err := scale(t, f, 4); targets.Reason(err) != ProjectRemoved {
					t.Errorf("SetReplicas() = %v, want %s", err, ProjectRemoved)
				}
				i.takeDown("shop", nil)
				if i.networks["shop_default"] {
					t.Error("the network is in use")
				}
			})
		}
	}
}

// TestServiceRemovedMeanwhile holds the same of "docker compose rm" of one service.
func TestServiceRemovedMeanwhile(t *testing.T) {
	whole := wholeWrite(t)
	for first := 1; first <= whole; first++ {
		t.Run(fmt.Sprintf("before call %d", first), func(t *testing.T) {
			t.Parallel()
			i := newImitation(t)
			i.up(service{project: "shop", name: "web"}, 2)
			seen := i.seen("shop")
			i.up(service{project: "shop", name: "db"}, 1)
			f := started(t, i, &targettest.Store{})
			version := read(t, f).Version
			c := i.count(map[int]func(){first: func() { i.takeDown("shop", seen) }})
			err := f.SetReplicas(t.Context(), web, 4, version, "a test asks")
			c.end()
			if err == nil {
				t.Error("SetReplicas() = nil")
			}
			wantNames(t, i)
			got := read(t, f)
			told := slices.ContainsFunc(got.Notices, func(n policy.Notice) bool {
				return n.Condition == ContainersRemoved && strings.Contains(n.Message, `"docker compose up -d web"`)
			})
			if got.Err != nil || got.SpecReplicas != 0 || !told {
				t.Errorf("spec %d, %v, with notices %+v, want 0 and that somebody removed all", got.SpecReplicas, got.Err, got.Notices)
			}
			if len(i.of("shop", "db")) != 1 {
				t.Error("the other service is gone")
			}
		})
	}
}

// TestKilledWhileTakenDown holds that the next hpad removes what one had made that
// was killed, where the project is gone since, and leaves it where it is not.
func TestKilledWhileTakenDown(t *testing.T) {
	whole := wholeWrite(t)
	for last := 2; last <= whole; last++ {
		for _, down := range []bool{true, false} {
			t.Run(fmt.Sprintf("before call %d, taken down %v", last, down), func(t *testing.T) {
				t.Parallel()
				i := newImitation(t)
				i.up(service{project: "shop", name: "web"}, 2)
				seen := i.seen("shop")
				store := &targettest.Store{}
				killed := started(t, i, store)
				read(t, killed)
				i.count(map[int]func(){last: i.die})
				if err := scale(t, killed, 4); err == nil {
					t.Fatal("a write to a broken engine succeeds")
				}
				if err := killed.Close(); err != nil {
					t.Fatal(err)
				}
				i.with(func() { i.broken, i.refuse = false, nil })
				running := 0
				for _, c := range i.of("shop", "web") {
					if c.State.Status == container.StateRunning {
						running++
					}
				}
				if down {
					i.takeDown("shop", seen)
				}
				f := started(t, i, store)
				if got := read(t, f); down && targets.Reason(got.Err) != ProjectRemoved || !down && int(got.SpecReplicas) != running {
					t.Errorf("spec %d, %v, with %d that run", got.SpecReplicas, got.Err, running)
				}
				if down {
					wantNames(t, i)
				}
			})
		}
	}
}

// TestTheirsAlone holds that what hpad has made stays where somebody removes the
// other containers later, and from 0 where there never was another one.
func TestTheirsAlone(t *testing.T) {
	i := newImitation(t)
	i.networks["shop_default"] = true
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 3)
	read(t, f)
	i.takeDown("shop", i.seen("shop")[:1]) // docker rm --force shop-web-1
	if got := read(t, f); got.Err != nil || got.SpecReplicas != 2 {
		t.Errorf("spec %d, %v, want the 2 that hpad made", got.SpecReplicas, got.Err)
	}
	i.networks["shop_default"] = true
	mustScale(t, f, 0)
	wantNames(t, i)
	mustScale(t, f, 2)
	if got := read(t, f); got.Err != nil || got.SpecReplicas != 2 {
		t.Errorf("spec %d, %v, want the 2 from 0", got.SpecReplicas, got.Err)
	}
	mustScale(t, f, 3)
	wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3")
}

// TestRenewalEndsWrite holds that hpad makes no more replicas of a configuration that
// Compose has renewed meanwhile, also where its image alone is another one, as after
// "docker compose pull", or all but the image.
func TestRenewalEndsWrite(t *testing.T) {
	for name, change := range map[string]func(i *imitation, s *service){
		"image": func(i *imitation, _ *service) { i.images["bb:1"] = "sha256:" + strings.Repeat("b2", 32) },
		"file":  func(_ *imitation, s *service) { s.hash = "hash-2" },
	} {
		t.Run(name, func(t *testing.T) {
			i := newImitation(t)
			s := service{project: "shop", name: "web"}
			i.up(s, 2)
			f := started(t, i, &targettest.Store{})
			version := read(t, f).Version
			starts := 0
			i.with(func() {
				i.refuseStart = func(*imitated) string { // under the lock
					if starts++; starts == 1 {
						change(i, &s)
						old := i.replicas("shop", "web")[0]
						i.endRenewal(old.ID, i.beginRenewal(s, old.ID))
					}
					return ""
				}
			})
			err := f.SetReplicas(t.Context(), web, 4, version, "a test asks")
			if !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "Compose has renewed") || starts != 1 {
				t.Errorf("SetReplicas() = %v after %d starts, want the renewal after one", err, starts)
			}
		})
	}
}

// TestFirstReplicaRemoved holds that the first replica from 0 is missed where
// somebody removes it at once, beside others of the project.
func TestFirstReplicaRemoved(t *testing.T) {
	i := newImitation(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 1)
	i.up(service{project: "shop", name: "db"}, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 0)
	wantNames(t, i)
	i.with(func() {
		i.refuse = func(r *http.Request) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/containers/json") {
				i.with(func() {
					for _, c := range i.replicas("shop", "web") {
						i.drop(c)
					}
				})
			}
			return 0, ""
		}
	})
	if err := scale(t, f, 2); !errors.Is(err, targets.ErrConflict) || !strings.Contains(err.Error(), "somebody else has removed the new container shop-web-1") {
		t.Errorf("SetReplicas() = %v, want a conflict over shop-web-1", err)
	}
	wantNames(t, i)
}

// TestCopiesForget holds that replicas are known as copies only as long as Compose
// may be at work on what was there before them, but for those that it has overtaken.
func TestCopiesForget(t *testing.T) {
	i := newImitation(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 1)
	store := &targettest.Store{}
	f := started(t, i, store)
	read(t, f)
	mustScale(t, f, 3)
	l, err := f.list(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	k := key{"shop", "web"}
	forget := func(members []*member) int {
		f.copies.settle(t.Context(), k, members, time.Now().Add(copyAge+time.Second))
		stored, err := store.List(t.Context(), copyPrefix)
		if err != nil || (len(stored) > 0) != (len(f.copies.of(k)) > 0) {
			t.Errorf("stored %q, %v, with %v known", stored, err, f.copies.of(k))
		}
		return len(f.copies.of(k))
	}
	l.services[k][2].Labels = maps.Clone(l.services[k][2].Labels)
	l.services[k][2].Labels[labelHash] = "hash-2"
	if n := forget(l.services[k]); n != 2 {
		t.Errorf("%d copies are known, want the 2 that are obsolete", n)
	}
	l.services[k][2].Labels[labelHash] = "hash-1"
	if n := forget(l.services[k]); n != 0 {
		t.Errorf("%d copies are known, want none", n)
	}
}
