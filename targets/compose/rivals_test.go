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

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

// The tests in this file change a service as Compose does, between two calls of hpad.

// calls counts the calls to an engine, starting at 1, and runs functions before some of them.
type calls struct {
	mu     sync.Mutex
	taken  int
	before map[int]func()
}

// count starts counting calls. Each function runs once, before the call with its number.
func (i *fakeEngine) count(before map[int]func()) *calls {
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

// end returns the number of calls, and runs the functions for calls that were not made.
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

// seen returns the IDs of a project's containers.
func (i *fakeEngine) seen(project string) []string {
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

// beginRenewal creates the replacement of a container as "docker compose up" does. It returns
// nil if the container no longer exists.
func (i *fakeEngine) beginRenewal(s service, id string) *fakeContainer {
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

// endRenewal removes the container and renames its replacement.
func (i *fakeEngine) endRenewal(id string, next *fakeContainer) {
	if old := i.find(id); old != nil && next != nil {
		i.drop(old)
		next.Name = "/" + next.Name[14:]
		next.start()
	}
}

// renew recreates containers as "docker compose up" does, and returns the IDs of the new
// containers.
func (i *fakeEngine) renew(s service, seen []string) (made []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := map[string]*fakeContainer{}
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

// takeDown removes containers, and the network if it is unused, as "docker compose down" does.
func (i *fakeEngine) takeDown(project string, seen []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range seen {
		if c := i.find(id); c != nil {
			i.drop(c)
		}
	}
	used := slices.ContainsFunc(i.containers, func(c *fakeContainer) bool {
		return c.Config.Labels[labelProject] == project && c.State.Status == container.StateRunning
	})
	if !used {
		i.networks[project+"_default"] = false
	}
}

// die aborts this call and all later calls, until the next hpad starts.
func (i *fakeEngine) die() {
	i.with(func() { i.broken = i.refuse != nil })
	panic(http.ErrAbortHandler)
}

// hashes returns the configurations of the service's containers, by number.
func hashes(i *fakeEngine) []string {
	var found []string
	for _, c := range i.of("shop", "web") {
		found = append(found, c.Config.Labels[labelHash])
	}
	return found
}

// settled reads and scales like an autoscaler until there are n containers with the same
// configuration.
func settled(t *testing.T, i *fakeEngine, f *Fleet, n int32, hash string) {
	t.Helper()
	wait.Soon(t, fmt.Sprintf("%d containers of %s", n, hash), func() bool {
		got := read(t, f)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if got.SpecReplicas > n {
			t.Fatalf("spec = %d, want at most the requested %d: %q", got.SpecReplicas, n, names(i))
		}
		if got.SpecReplicas < n && got.Hold == nil {
			if err := f.SetReplicas(t.Context(), web, n, got.Version, "test decision"); err != nil && !errors.Is(err, targets.ErrConflict) {
				t.Fatal(err)
			}
		}
		found := hashes(i)
		return len(found) == int(n) && !slices.ContainsFunc(found, func(found string) bool { return found != hash })
	})
}

// wholeWrite returns the number of calls in an undisturbed write.
func wholeWrite(t *testing.T) int {
	t.Helper()
	fewest := math.MaxInt // a call of the previous reading may be included
	for range 3 {
		i := newFakeEngine(t)
		i.up(service{project: "shop", name: "web"}, 2)
		f := started(t, i, &targettest.Store{})
		read(t, f)
		c := i.count(nil)
		mustScale(t, f, 4)
		fewest = min(fewest, c.end())
	}
	return fewest
}

// TestConcurrentUp checks that no replica keeps an old configuration, regardless of the
// order of hpad's calls and those of "docker compose up", which lists the containers before one
// call and recreates them before another. Compose's containers are kept.
func TestConcurrentUp(t *testing.T) {
	whole := wholeWrite(t)
	for first := 1; first <= whole; first++ {
		for last := first; last <= whole+1; last++ {
			t.Run(fmt.Sprintf("from %d to %d", first, last), func(t *testing.T) {
				t.Parallel()
				i := newFakeEngine(t)
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
				err := f.SetReplicas(t.Context(), web, 4, version, "test decision")
				c.end()
				var partial *targets.PartialError
				if err != nil && !errors.As(err, &partial) && !errors.Is(err, targets.ErrConflict) {
					t.Errorf("SetReplicas() = %v, want a PartialError or ErrConflict", err)
				}
				settled(t, i, f, 4, "hash-2")
				there := i.seen("shop")
				for _, id := range made {
					if !slices.Contains(there, id) {
						t.Errorf("a container that Compose created is missing, got %q", names(i))
					}
				}
			})
		}
	}
}

// TestConcurrentDown checks that "docker compose down" leaves no container of a project if hpad
// creates replicas at the same time.
func TestConcurrentDown(t *testing.T) {
	whole := wholeWrite(t)
	for first := 1; first <= whole; first++ {
		for last := first; last <= whole+1; last++ {
			t.Run(fmt.Sprintf("from %d to %d", first, last), func(t *testing.T) {
				t.Parallel()
				i := newFakeEngine(t)
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
				_ = f.SetReplicas(t.Context(), web, 4, version, "test decision")
				c.end()
				got := read(t, f)
				if !errors.Is(got.Err, targets.ErrTargetNotFound) || targets.Reason(got.Err) != ServiceNotFound || !strings.Contains(got.Err.Error(), `"docker compose up -d web"`) {
					t.Errorf("reading error = %v with reason %q, want %s", got.Err, targets.Reason(got.Err), ServiceNotFound)
				}
				wantNames(t, i)
				if err := scale(t, f, 4); targets.Reason(err) != ServiceNotFound {
					t.Errorf("SetReplicas() = %v, want %s", err, ServiceNotFound)
				}
				i.takeDown("shop", nil)
				if i.networks["shop_default"] {
					t.Error("the network still exists")
				}
			})
		}
	}
}

// TestKilledDuringDown checks that the next hpad removes the replicas of a killed hpad if
// the project was removed, and keeps them otherwise.
func TestKilledDuringDown(t *testing.T) {
	whole := wholeWrite(t)
	for last := 2; last <= whole; last++ {
		for _, down := range []bool{true, false} {
			t.Run(fmt.Sprintf("before call %d, taken down %v", last, down), func(t *testing.T) {
				t.Parallel()
				i := newFakeEngine(t)
				i.up(service{project: "shop", name: "web"}, 2)
				seen := i.seen("shop")
				store := &targettest.Store{}
				killed := started(t, i, store)
				read(t, killed)
				i.count(map[int]func(){last: i.die})
				if err := scale(t, killed, 4); err == nil {
					t.Fatal("a write to a failing engine succeeded")
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
				if got := read(t, f); down && targets.Reason(got.Err) != ServiceNotFound || !down && int(got.SpecReplicas) != running {
					t.Errorf("spec = %d, %v, with %d running", got.SpecReplicas, got.Err, running)
				}
				if down {
					wantNames(t, i)
				}
			})
		}
	}
}

// TestOnlyOwnReplicasLeft checks that hpad's replicas are kept if an operator removes the other
// containers long after hpad created the replicas, or if hpad removes the other containers
// itself.
func TestOnlyOwnReplicasLeft(t *testing.T) {
	i := newFakeEngine(t)
	i.networks["shop_default"] = true
	i.up(service{project: "shop", name: "web"}, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 3)
	i.with(func() { i.replicas("shop", "web")[0].State.Status = container.StateExited })
	mustScale(t, f, 2)
	wantNames(t, i, "shop-web-2", "shop-web-3")
	if got := read(t, f); got.Err != nil || got.SpecReplicas != 2 {
		t.Errorf("spec = %d, %v, want 2, the replicas that hpad created", got.SpecReplicas, got.Err)
	}
	mustScale(t, f, 3)
	i.with(func() {
		for _, c := range i.containers {
			c.created = c.created.Add(-2 * freshFor)
		}
	})
	i.takeDown("shop", i.seen("shop")[:1]) // docker rm --force shop-web-1
	if got := read(t, f); got.Err != nil || got.SpecReplicas != 2 {
		t.Errorf("spec = %d, %v, want 2, the replicas that hpad created", got.SpecReplicas, got.Err)
	}
	i.networks["shop_default"] = true
	mustScale(t, f, 0)
	wantNames(t, i)
	mustScale(t, f, 2)
	if got := read(t, f); got.Err != nil || got.SpecReplicas != 2 {
		t.Errorf("spec = %d, %v, want 2 after the scale-up from 0", got.SpecReplicas, got.Err)
	}
	mustScale(t, f, 3)
	wantNames(t, i, "shop-web-1", "shop-web-2", "shop-web-3")
}

// TestReplacementFails checks that an obsolete replica is kept until its replacement has
// started. The error is shown as a problem of the fleet.
func TestReplacementFails(t *testing.T) {
	i := newFakeEngine(t)
	s := service{project: "shop", name: "web"}
	i.up(s, 1)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	mustScale(t, f, 2)
	s.hash = "hash-2"
	i.renew(s, i.seen("shop")[:1])
	f.quiet = composeQuiet
	if text := condition(read(t, f), obsoleteReplicas); !strings.Contains(text, "shop-web-2") {
		t.Errorf("notice = %q, want shop-web-2", text)
	}
	f.background.Wait()
	wantNames(t, i, "shop-web-1", "shop-web-2") // Compose may replace it
	f.quiet = 0
	i.with(func() { i.refuseStart = func(*fakeContainer) string { return "no such device" } })
	read(t, f)
	f.background.Wait()
	if got := read(t, f); got.SpecReplicas != 2 || !strings.Contains(strings.Join(f.Problems(), ""), "no such device") {
		t.Errorf("spec = %d with problems %q, want 2 with the error", got.SpecReplicas, f.Problems())
	}
	i.renew(s, i.seen("shop")) // by Compose
	if got := read(t, f); len(got.Notices) > 0 || len(f.Problems()) > 0 {
		t.Errorf("notices = %+v and problems = %q, want none", got.Notices, f.Problems())
	}
}
