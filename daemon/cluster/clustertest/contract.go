// Package clustertest tests implementations of cluster.Coordinator.
package clustertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/state"
)

// ttl is the time to live of the leases in the tests.
const ttl = 4 * time.Second

// Run tests a Coordinator. The tests run in parallel, because they wait for leases. connect
// returns a new connection to the same store, which is empty at first. If cut is not nil, calling
// it makes all later calls on that connection fail.
func Run(t *testing.T, connect func(t *testing.T) (c cluster.Coordinator, cut func())) {
	t.Run("forget", func(t *testing.T) { // not parallel, because it needs a cluster without members
		forget(t, func() (cluster.Coordinator, func()) { return connect(t) })
	})
	for name, test := range contract {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func() (cluster.Coordinator, func()) { return connect(t) })
		})
	}
}

// contract contains the tests by name.
var contract = map[string]func(t *testing.T, connect func() (cluster.Coordinator, func())){
	"members": members, "terms": terms, "records": records, "fence": fence, "expiry": expiry,
	"configurations": configurations, "one owner": oneOwner, "many": many, "leave": leave, "too large": tooLarge, "keys": keys,
}

func names(t *testing.T) (member func(string) cluster.Member, fleet string) {
	return func(name string) cluster.Member {
		return cluster.Member{Name: name + "." + t.Name(), Address: "https://127.0.0.1:4720", Fleets: map[string]string{t.Name(): "1"}}
	}, t.Name()
}

func join(t *testing.T, c cluster.Coordinator, member cluster.Member) cluster.Session {
	t.Helper()
	s, err := c.Join(t.Context(), member, ttl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		_ = s.Leave(ctx) // fails if the session has ended
	})
	return s
}

func acquire(t *testing.T, s cluster.Session, fleet string) cluster.Term {
	t.Helper()
	term, err := s.Acquire(t.Context(), fleet, "1")
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func view(t *testing.T, c cluster.Coordinator) cluster.View {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func load(t *testing.T, term cluster.Term) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := term.Load(t.Context(), func(key string, value []byte) error {
		if _, twice := found[key]; twice {
			return fmt.Errorf("key %q comes twice", key)
		}
		found[key] = string(value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func write(t *testing.T, term cluster.Term, values map[string][]byte) {
	t.Helper()
	if err := term.Write(t.Context(), values); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * ttl); !is(); time.Sleep(ttl / 40) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, 5*ttl)
		}
	}
}

func members(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, _ := names(t)
	c, _ := connect()
	other, _ := connect()
	s := join(t, c, member("a"))
	if _, err := other.Join(t.Context(), member("a"), ttl); !errors.Is(err, cluster.ErrTaken) {
		t.Errorf("Join() with a name in use = %v, want %v", err, cluster.ErrTaken)
	}
	if diff := cmp.Diff(member("a"), view(t, other).Members[member("a").Name]); diff != "" {
		t.Errorf("member in the other member's view (-want +got):\n%s", diff)
	}
	changed := member("a")
	changed.Fleets = map[string]string{"x": "2"}
	if err := s.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, view(t, other).Members[changed.Name]); diff != "" {
		t.Errorf("member in the other member's view after an update (-want +got):\n%s", diff)
	}
	time.Sleep(ttl + ttl/2) // the session must renew itself during this time
	if left := time.Until(s.Expires()); left <= 0 || left > ttl {
		t.Errorf("the session expires in %s, want 0 to %s", left, ttl)
	}
	if _, is := view(t, other).Members[changed.Name]; !is {
		t.Error("a member that renews its session was removed")
	}
}

func terms(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	a, b := join(t, c, member("a")), join(t, c, member("b"))
	for number := uint64(1); number <= 4; number++ {
		owner, other, name := a, b, member("a").Name
		if number%2 == 0 {
			owner, other, name = b, a, member("b").Name
		}
		term := acquire(t, owner, fleet)
		if _, err := other.Acquire(t.Context(), fleet, "1"); !errors.Is(err, cluster.ErrTaken) {
			t.Errorf("another member's Acquire() = %v, want %v", err, cluster.ErrTaken)
		}
		again := acquire(t, owner, fleet)
		if term.Number() != number || again.Number() != number {
			t.Errorf("term number = %d, and %d after a second Acquire, want %d", term.Number(), again.Number(), number)
		}
		want := cluster.Ownership{Owner: name, Last: name, Term: number, Configuration: "1"}
		if diff := cmp.Diff(want, view(t, c).Fleets[fleet]); diff != "" {
			t.Errorf("ownership (-want +got):\n%s", diff)
		}
		write(t, again, map[string][]byte{"a": {byte(number)}})
		for range 2 { // a second release must succeed
			if err := term.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want.Owner = ""
		if diff := cmp.Diff(want, view(t, c).Fleets[fleet]); diff != "" {
			t.Errorf("ownership after the release (-want +got):\n%s", diff)
		}
	}
}

func records(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	s := join(t, c, member("a"))
	term := acquire(t, s, fleet)
	neighbour := acquire(t, s, fleet+"2") // its name begins with the name of the first fleet
	write(t, neighbour, map[string][]byte{"autoscalers/a": []byte("neighbour")})
	write(t, term, map[string][]byte{"autoscalers/a": []byte("1"), "fleets/x/a/b c\n": {0, 0xff}, "gone": []byte("1")})
	write(t, term, map[string][]byte{"autoscalers/a": []byte("2"), "gone": nil, "missing": nil})
	write(t, term, nil)
	want := map[string]string{"autoscalers/a": "2", "fleets/x/a/b c\n": "\x00\xff"}
	if got := load(t, term); !maps.Equal(got, want) {
		t.Errorf("records = %q, want %q", got, want)
	}
	stop := errors.New("enough")
	if err := term.Load(t.Context(), func(string, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Load() = %v, want the caller's error", err)
	}
	reader, _ := connect() // has no session
	read := map[string]string{}
	if err := reader.Load(t.Context(), fleet, func(key string, value []byte) error {
		read[key] = string(value)
		return nil
	}); err != nil || !maps.Equal(read, want) {
		t.Errorf("records read without a session = %q, %v, want %q", read, err, want)
	}
}

func fence(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	a, b := join(t, c, member("a")), join(t, c, member("b"))
	before := acquire(t, a, fleet)
	write(t, before, map[string][]byte{"a": []byte("1"), "b": []byte("1")})
	if err := before.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFenced := func(when string) {
		t.Helper()
		if err := before.Write(t.Context(), map[string][]byte{"a": []byte("2"), "b": nil}); !errors.Is(err, state.ErrFenced) {
			t.Errorf("Write() %s = %v, want %v", when, err, state.ErrFenced)
		}
		if err := before.Configure(t.Context(), "9"); !errors.Is(err, state.ErrFenced) {
			t.Errorf("Configure() %s = %v, want %v", when, err, state.ErrFenced)
		}
	}
	wantFenced("after the release")
	term := acquire(t, b, fleet)
	wantFenced("in another member's term")
	if err := before.Release(t.Context()); err != nil {
		t.Error(err)
	}
	write(t, term, map[string][]byte{"c": []byte("1")})
	if err := term.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	own := acquire(t, a, fleet)
	wantFenced("in a later term of the same member")
	want := map[string]string{"a": "1", "b": "1", "c": "1"}
	if got := load(t, own); !maps.Equal(got, want) {
		t.Errorf("records %q, want %q", got, want)
	}
	if got := view(t, c).Fleets[fleet]; got.Term != 3 || got.Configuration != "1" {
		t.Errorf("the fleet is %+v", got)
	}
}

func tooLarge(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	term := acquire(t, join(t, c, member("a")), fleet)
	write(t, term, map[string][]byte{"a": []byte("1")})
	random := make([]byte, 3<<20)
	_, _ = rand.Read(random)
	err := term.Write(t.Context(), map[string][]byte{"a": []byte("2"), "x": random, "b": []byte("1"), "y": random[1<<20:]})
	rejected, is := errors.AsType[state.RejectedError](err)
	if keys := slices.Sorted(maps.Keys(rejected)); !is || !slices.Equal(keys, []string{"x", "y"}) {
		t.Errorf("rejected keys = %q, error = %.200v, want x and y", keys, err)
	}
	want := map[string]string{"a": "1"}
	if got := load(t, term); !maps.Equal(got, want) {
		t.Errorf("keys after a rejected write = %q, want %q", slices.Collect(maps.Keys(got)), want)
	}
	write(t, term, map[string][]byte{"a": []byte("2"), "b": []byte("1")})
}

func expiry(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, cut := connect()
	if cut == nil {
		t.Fatal("the connection cannot be cut")
	}
	other, _ := connect()
	a := join(t, c, member("a"))
	term := acquire(t, a, fleet)
	write(t, term, map[string][]byte{"a": []byte("1")})
	b := join(t, other, member("b"))
	cut()
	expires := a.Expires()
	if _, err := c.View(within(t, ttl/4)); err == nil {
		t.Error("a call on a cut connection succeeded")
	}
	var next cluster.Term
	eventually(t, "takeover", func() bool {
		taken, err := b.Acquire(t.Context(), fleet, "1")
		if err == nil {
			next = taken
		}
		return err == nil
	})
	if early := time.Until(a.Expires()); early > 0 {
		t.Errorf("another member acquired the fleet %s before the end of the lease", early)
	}
	if a.Expires().After(expires) {
		t.Error("the expiry of a lease changed without a renewal")
	}
	if next.Number() != 2 || load(t, next)["a"] != "1" {
		t.Errorf("got term %d with record %q, want 2 with 1", next.Number(), load(t, next))
	}
	if err := term.Write(within(t, ttl/4), map[string][]byte{"a": []byte("2")}); err == nil {
		t.Error("a write on a cut connection succeeded")
	}
	if _, is := view(t, other).Members[member("a").Name]; is {
		t.Error("a member without a lease is still listed")
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func configurations(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	a, b := join(t, c, member("a")), join(t, c, member("b"))
	term := acquire(t, a, fleet)
	if err := term.Configure(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	if got := view(t, c).Fleets[fleet]; got.Configuration != "2" || got.Owner != member("a").Name || got.Term != 1 {
		t.Errorf("ownership after a reload = %+v", got)
	}
	if err := term.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), fleet, "1"); !errors.Is(err, cluster.ErrConfigurationDiffers) {
		t.Errorf("Acquire() under another configuration = %v, want %v", err, cluster.ErrConfigurationDiffers)
	}
	for _, name := range []string{fleet, fleet + ".new"} {
		if err := c.Configure(t.Context(), name, "1", "alice"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := view(t, c).Fleets[fleet+".new"], (cluster.Ownership{Configuration: "1", Adopter: "alice"}); got != want {
		t.Errorf("ownership of a fleet without a first owner = %+v, want %+v", got, want)
	}
	if err := c.Load(t.Context(), fleet+".new", func(string, []byte) error { return errors.New("a value") }); err != nil {
		t.Errorf("Load() for a fleet without a first owner: %v", err)
	}
	term = acquire(t, b, fleet)
	if got := view(t, c).Fleets[fleet].Adopter; got != "" {
		t.Errorf("adopter in the next term = %q, want none", got)
	}
	if err := c.Configure(t.Context(), fleet, "3", "bob"); err != nil { // while the fleet has an owner
		t.Fatal(err)
	}
	write(t, term, map[string][]byte{"a": []byte("1")})
	if got := view(t, c).Fleets[fleet]; got.Configuration != "3" || got.Adopter != "bob" || got.Owner != member("b").Name || got.Term != 2 {
		t.Errorf("ownership after Configure = %+v", got)
	}
}

// forget checks that the configuration of a fleet is removed only if there are no members and no
// owner.
func forget(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	s := join(t, c, member("a"))
	term := acquire(t, s, fleet)
	recorded := func(step, configuration, want string) {
		t.Helper()
		if err := c.Forget(t.Context(), fleet, configuration); err != nil {
			t.Fatal(err)
		}
		if got := view(t, c).Fleets[fleet].Configuration; got != want {
			t.Errorf("configuration %s = %q, want %q", step, got, want)
		}
	}
	recorded("with an owner", "1", "1")
	if err := term.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded("with a member", "1", "1")
	if err := s.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded("with another configuration", "2", "1")
	recorded("without members", "1", "")
	recorded("again", "1", "")
}

// keys checks that all connections get the same key.
func keys(t *testing.T, connect func() (cluster.Coordinator, func())) {
	var all sync.WaitGroup
	found := make([][]byte, 4)
	for i := range found {
		all.Go(func() {
			c, _ := connect()
			var err error
			if found[i], err = c.Key(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, key := range found {
		if len(key) != 32 || !bytes.Equal(key, found[0]) {
			t.Errorf("keys = %x, want equal keys of 32 bytes", found)
		}
	}
}

func oneOwner(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	const count = 5
	var all sync.WaitGroup
	won := make(chan cluster.Term, count)
	for i := range count {
		c, _ := connect()
		s := join(t, c, member(fmt.Sprint("m", i)))
		all.Go(func() {
			switch term, err := s.Acquire(t.Context(), fleet, "1"); {
			case err == nil:
				won <- term
			case !errors.Is(err, cluster.ErrTaken):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("got %d owners, want 1", len(won))
	}
}

func many(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	s := join(t, c, member("a"))
	term := acquire(t, s, fleet)
	const count, size = 5000, 1300 // the size of a record
	values, want := map[string][]byte{}, map[string]string{}
	for i := range count {
		key := fmt.Sprintf("autoscalers/checkout-%04d", i)
		values[key] = fmt.Appendf(make([]byte, 0, size), "%0*d", size, i)
		want[key] = string(values[key])
	}
	write(t, term, values)
	if got := load(t, term); !maps.Equal(got, want) {
		t.Errorf("got %d records, want %d, or their values differ", len(got), len(want))
	}
	for key := range values {
		values[key] = nil
	}
	write(t, term, values)
	if got := load(t, term); len(got) > 0 {
		t.Errorf("got %d records after their removal, want 0", len(got))
	}
}

func leave(t *testing.T, connect func() (cluster.Coordinator, func())) {
	member, fleet := names(t)
	c, _ := connect()
	a := join(t, c, member("a"))
	term := acquire(t, a, fleet)
	for range 2 {
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-a.Ended():
	case <-time.After(ttl):
		t.Error("the session has not ended after Leave")
	}
	if err := term.Write(t.Context(), map[string][]byte{"a": []byte("1")}); !errors.Is(err, state.ErrFenced) {
		t.Errorf("Write() after Leave = %v, want %v", err, state.ErrFenced)
	}
	if _, err := a.Acquire(t.Context(), fleet, "1"); err == nil {
		t.Error("a member acquired a fleet after Leave")
	}
	again := join(t, c, member("a"))
	if got := acquire(t, again, fleet); got.Number() != 2 {
		t.Errorf("number of the next term = %d, want 2", got.Number())
	}
}
