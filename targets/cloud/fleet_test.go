package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// fake is a platform with one group, "web".
type fake struct {
	group   Group[string]
	members []Member
	// failing maps calls to the errors that they return. calls counts the calls.
	failing map[string]error
	calls   map[string]int
	deleted []string
}

func (p *fake) called(operation string) error {
	p.calls[operation]++
	return p.failing[operation]
}

func (p *fake) List(context.Context, *int, []string) (map[string]*Group[string], error) {
	group := p.group
	return map[string]*Group[string]{"web": &group}, p.called("list")
}

func (p *fake) Get(context.Context, *int, string) (*Group[string], error) {
	group := p.group
	return &group, p.called("get")
}

func (p *fake) Members(context.Context, *int, string, *Group[string]) (*Listing, error) {
	return &Listing{Members: slices.Clone(p.members)}, p.called("members")
}

func (p *fake) Hold(string, *Group[string], *Listing) *policy.Hold { return nil }

func (p *fake) Facts(_ context.Context, _ *int, unknown map[string]Unknown[string]) (map[string]*Found, error) {
	found := map[string]*Found{}
	for key := range unknown["web"].Members {
		found[key] = &Found{Launched: time.Now().Add(-time.Minute), Facts: Facts{Name: "name-" + key}}
	}
	return found, p.called("facts")
}

func (p *fake) Explain(context.Context, *int, string, *Group[string]) (*policy.Notice, error) {
	return &policy.Notice{Condition: InsufficientCapacity, Reason: "SoldOut"}, p.called("explain")
}

func (p *fake) Resize(context.Context, *int, string, *Group[string], int32) (string, error) {
	return "", p.called("resize")
}

func (p *fake) Delete(_ context.Context, _ *int, _ string, _ *Group[string], handles []string) ([]string, error) {
	if err := p.called("delete"); err != nil {
		return nil, err
	}
	p.deleted = append(p.deleted, handles...)
	p.failing["delete"] = p.failing["next delete"]
	return handles, nil
}

func (p *fake) Tests(context.Context, *int, map[string]*Group[string]) (string, []PermissionTest[string]) {
	return "uses a fake", nil
}

var web = targets.Ref{Fleet: "prod", Name: "web"}

// start returns a fleet with the given number of ready instances: a, b, c and so on.
func start(size int32) (*fake, *Fleet[string, string, int]) {
	p := &fake{
		group:   Group[string]{Size: size, Min: new(int32), Max: new(int32(9)), Identity: "1", Stable: true},
		failing: map[string]error{}, calls: map[string]int{},
	}
	for i := range size {
		p.members = append(p.members, Member{ID: string('a' + i), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue})
	}
	f := &Fleet[string, string, int]{Platform: p, Memory: NewMemory(nil), Noun: "group", DeletesAtOnce: 2}
	f.Make, f.Drop = func(context.Context) (*int, error) { return new(int), nil }, func(*int) {}
	f.Name, f.Parse = "prod", func(name string) (string, error) { return name, nil }
	f.Limiter = NewLimiter(Limits{Calls: map[Class]Limit{Read: {PerSecond: 100, Burst: 100}}}, nil)
	return p, f
}

func (f *Fleet[N, G, C]) read(t *testing.T) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{web})
	if err != nil {
		t.Fatal(err)
	}
	return readings[web]
}

// TestLists checks that the instances of a group are listed again if the group has changed or is
// not settled, and otherwise as far as the limits allow. Quiet groups are listed again after a
// minute. A failed listing causes an error once the last listing is 2 minutes old.
func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := start(2)
		for _, step := range []struct {
			name   string
			change func()
			lists  int
			err    error
		}{
			{"first", func() {}, 1, nil},
			{"unsettled, within the limits", func() {}, 1, nil},
			{"quiet", func() { p.group.Quiet = true }, 0, nil},
			{"quiet for a minute", func() { time.Sleep(quietAge) }, 1, nil},
			{"changed, too few instances", func() { p.group.Size = 3 }, 1, nil},
			{"not settled", func() {}, 1, nil},
			{"settled", func() { p.group.Size = 2 }, 1, nil},
			{"not stable", func() { p.group.Stable = false }, 1, nil},
			{"settled again", func() { p.group.Stable, p.group.Quiet = true, false }, 1, nil},
			{"failed, with a recent listing", func() { p.failing["members"] = targets.ErrTransient }, 1, nil},
			{"forbidden", func() { p.failing["members"] = targets.ErrForbidden }, 1, targets.ErrForbidden},
			{"failed, with an old listing", func() {
				p.failing["members"] = targets.ErrTransient
				time.Sleep(listAge)
			}, 1, targets.ErrTransient},
		} {
			step.change()
			before := p.calls["members"]
			r := f.read(t)
			if lists := p.calls["members"] - before; lists != step.lists || !errors.Is(r.Err, step.err) || step.err == nil && len(r.Instances) != 2 {
				t.Errorf("%s: lists = %d, instances = %d, error %v; want %d lists and error %v", step.name, lists, len(r.Instances), r.Err, step.lists, step.err)
			}
		}
		p.failing["members"] = nil
		f.read(t)
		f.Limiter = NewLimiter(Limits{Calls: map[Class]Limit{Read: {PerSecond: 1e-9, Burst: 1}}}, nil)
		_ = f.Limiter.Do(t.Context(), list, fine)
		before := p.calls["members"]
		if r := f.read(t); r.Err != nil || p.calls["members"] != before {
			t.Errorf("error = %v after %d lists with an exhausted limit, want no list", r.Err, p.calls["members"]-before)
		}
	})
}

// TestWithoutStore checks that groups are read and written while the store fails, and that
// Problems reports the failure.
func TestWithoutStore(t *testing.T) {
	_, f := start(2)
	store := &targettest.Store{}
	f.Memory = NewMemory(store)
	store.Fail(errors.New("disk full"))
	r := f.read(t)
	if len(r.Instances) != 2 || f.SetReplicas(t.Context(), web, 3, r.Version, "") != nil {
		t.Errorf("reading = %+v, want 2 instances and no error", r)
	}
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "disk full") {
		t.Errorf("Problems() = %q, want the store's error", problems)
	}
	store.Fail(nil)
	f.read(t)
	if stored, err := store.List(t.Context(), shardPrefix); err != nil || len(stored) != 2 || f.Problems() != nil {
		t.Errorf("stored entries = %q, %v with problems %q, want the records", stored, err, f.Problems())
	}
}

// TestFacts checks that each instance is looked up once, and again after it was not running.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := start(2)
		first := f.read(t)
		if p.calls["facts"] != 1 || first.Locations.At(0).Name != "name-a" || time.Since(first.Instances[0].StartedAt) != time.Minute {
			t.Errorf("calls = %d, reading = %+v, want the facts of the first instance", p.calls["facts"], first)
		}
		f.read(t)
		p.members[0].Phase = policy.PhasePending
		f.read(t)
		if p.calls["facts"] != 1 {
			t.Errorf("calls for known instances = %d, want 0", p.calls["facts"])
		}
		time.Sleep(time.Hour)
		p.members[0].Phase = policy.PhaseRunning
		if again := f.read(t); p.calls["facts"] != 2 || !again.Instances[0].StartedAt.After(first.Instances[0].StartedAt) {
			t.Errorf("calls = %d, start time = %v, want a later start time", p.calls["facts"], again.Instances[0].StartedAt)
		}
	})
}

// TestExplained checks that the platform is queried for the reason for missing instances after a
// delay, and that the reason disappears with the shortage.
func TestExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := start(2)
		p.group.Size = 3
		f.read(t)
		time.Sleep(explainAfter)
		if r := f.read(t); p.calls["explain"] != 1 || len(r.Notices) != 1 || r.Notices[0].Reason != "SoldOut" {
			t.Errorf("calls = %d, notices = %+v, want the reason", p.calls["explain"], r.Notices)
		}
		time.Sleep(explainEvery - time.Millisecond)
		if f.read(t); p.calls["explain"] != 1 {
			t.Errorf("calls = %d within %v, want 1", p.calls["explain"], explainEvery)
		}
		time.Sleep(time.Millisecond)
		if f.read(t); p.calls["explain"] != 2 {
			t.Errorf("calls = %d after %v, want 2", p.calls["explain"], explainEvery)
		}
		p.group.Size = 2
		if r := f.read(t); len(r.Notices) != 0 {
			t.Errorf("notices without a shortage = %+v, want none", r.Notices)
		}
	})
}

// TestReadAfterWriteLag checks that a reading contains the written size while the platform still
// reports the group's state before the write, and that a write at an old version is a conflict.
func TestReadAfterWriteLag(t *testing.T) {
	p, f := start(2)
	before := f.read(t).Version
	if err := f.SetReplicas(t.Context(), web, 4, before, ""); err != nil {
		t.Fatal(err)
	}
	r := f.read(t)
	if r.SpecReplicas != 4 || r.Version == before {
		t.Errorf("replicas = %d at version %s, want the written 4", r.SpecReplicas, r.Version)
	}
	if err := f.SetReplicas(t.Context(), web, 5, before, ""); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("SetReplicas() at an old version = %v, want ErrConflict", err)
	}
	p.group.Size, p.group.Identity = 4, "2"
	if err := f.SetReplicas(t.Context(), web, 5, r.Version, ""); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("SetReplicas() of a new group with the same name = %v, want ErrConflict", err)
	}
	p.group.Size = 1
	if r := f.read(t); r.SpecReplicas != 1 {
		t.Errorf("replicas = %d, want 1, which an external writer set", r.SpecReplicas)
	}
	if err := f.SetReplicas(t.Context(), web, 1, "", ""); err != nil || p.calls["resize"] != 1 {
		t.Errorf("SetReplicas() to the same size = %v after %d writes, want no write", err, p.calls["resize"]-1)
	}
	if bounds, ok := errors.AsType[*targets.OutOfRangeError](f.SetReplicas(t.Context(), web, 10, "", "")); !ok || *bounds.Max != 9 {
		t.Errorf("SetReplicas() above the maximum = %+v, want an OutOfRangeError with 9", bounds)
	}
}

func TestRemove(t *testing.T) {
	refused := fmt.Errorf("%w: no", targets.ErrForbidden)
	for name, c := range map[string]struct {
		ids       []string
		protected bool
		first     error
		next      error
		deleted   string
		reached   int32
		class     error
	}{
		"all":                  {ids: []string{"c", "a", "a", "gone"}, deleted: "ac"},
		"gone":                 {ids: []string{"gone"}},
		"protected":            {ids: []string{"a", "b"}, protected: true, class: targets.ErrHeld},
		"first call rejected":  {ids: []string{"a", "b", "c"}, first: refused, class: targets.ErrForbidden},
		"second call rejected": {ids: []string{"a", "b", "c"}, next: refused, deleted: "ab", reached: 2, class: targets.ErrForbidden},
		"second call lost":     {ids: []string{"a", "b", "c"}, next: targets.ErrUnknownOutcome, deleted: "ab", class: targets.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := start(4)
			p.members[0].Protected = c.protected
			p.failing["delete"], p.failing["next delete"] = c.first, c.next
			err := f.Remove(t.Context(), web, c.ids, f.read(t).Version, "")
			partial, partly := errors.AsType[*targets.PartialError](err)
			if !errors.Is(err, c.class) || partly != (c.reached > 0) || partly && partial.Reached != c.reached || strings.Join(p.deleted, "") != c.deleted {
				t.Errorf("Remove() = %v after deleting %q, want %v with %d reached after deleting %q", err, p.deleted, c.class, c.reached, c.deleted)
			}
			if want := 4 - int32(len(c.deleted)); f.read(t).SpecReplicas != want {
				t.Errorf("replicas = %d, want %d", f.read(t).SpecReplicas, want)
			}
		})
	}
}

// TestWritten checks that a write is applied to readings for a minute while the platform reports
// a version from before one of the writes, or until it reports a different version.
func TestWritten(t *testing.T) {
	begun := time.Now()
	type look struct {
		version string
		after   time.Duration
		want    []int
	}
	for name, looks := range map[string][]look{
		"lags":                      {{"a", 0, []int{5, 7}}, {"b", writeLag, []int{5, 7}}},
		"lags too long":             {{"a", writeLag + 1, nil}, {"a", 0, nil}},
		"new version, then the old": {{"b", 0, []int{5, 7}}, {"c", 1, nil}, {"b", 2, nil}},
		"external change":           {{"z", 0, nil}, {"a", 1, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var s groupState
			s.add("a", write{size: 5}, begun)
			s.add("b", write{size: 7}, begun)
			for _, l := range looks {
				var got []int
				for _, one := range s.unseen(l.version, begun.Add(l.after)) {
					got = append(got, int(one.size))
				}
				if !slices.Equal(got, l.want) {
					t.Errorf("unseen(%q) after %v = %v, want %v", l.version, l.after, got, l.want)
				}
			}
		})
	}
}

// TestCachedDetail checks that a value is read again after the interval, or immediately after an
// error; a failed read keeps the value.
func TestCachedDetail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a CachedDetail[int]
		calls, good := 0, 0
		broken := errors.New("broken")
		for n, s := range []struct {
			after time.Duration
			err   error
			calls int
		}{
			{0, nil, 1}, {59 * time.Second, nil, 1}, {time.Second, broken, 2}, {0, targets.ErrForbidden, 3}, {59 * time.Second, nil, 3}, {time.Second, nil, 4},
		} {
			time.Sleep(s.after)
			before := calls
			a.Refresh(time.Minute, func() (int, error) { calls++; return calls, s.err })
			if calls > before && s.err == nil {
				good = calls
			}
			value, known := a.Value()
			if calls != s.calls || value != good || !known || calls > before && !errors.Is(a.Failure(), s.err) {
				t.Errorf("step %d: calls = %d, value = %d, %t, failure = %v; want %d calls and value %d", n+1, calls, value, known, a.Failure(), s.calls, good)
			}
		}
	})
}
