package nomad

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// pipe is an in-memory network for tests with a fake clock.
type pipe struct {
	calls  chan net.Conn
	closed chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case call := <-p.calls:
		return call, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.calls <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// newPiped serves a handler over an in-memory network, and returns a function that opens fleets.
func newPiped(t *testing.T, handler http.Handler) func(readLimits readLimits, store targets.Store) *Fleet {
	p := &pipe{calls: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() {
		close(p.closed)
		_ = server.Close()
	})
	return func(readLimits readLimits, store targets.Store) *Fleet {
		f := openFleet(t, testConfig(t, "http://127.0.0.1:4646"), store)
		client, err := f.connection.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		client.transport.DialContext = p.dial
		f.readLimits = readLimits
		return f
	}
}

// cluster changes a fakeServer like a real cluster. Its indexes change only in the cases in which
// the indexes of a real cluster were observed to change.
type cluster struct {
	*fakeServer
	random *rand.Rand
	made   int
	// lively lists the numbers of the jobs that change often.
	lively []int
	// restarts enables task restarts for which the client does not report that the task ended.
	restarts bool
}

// any returns a random job from the given numbers.
func (c *cluster) any(numbers []int) *fakeJob {
	return c.jobs[fmt.Sprintf("job-%02d", numbers[c.random.IntN(len(numbers))])]
}

// register adds a job, or replaces a purged job.
func (c *cluster) register(id string) {
	c.index++
	job := &fakeJob{id: id, kind: "service", createIndex: c.index, index: c.index, count: c.random.IntN(6), deployed: c.random.IntN(3) == 0}
	if before := c.jobs[id]; before != nil {
		job.allocs, job.made = before.allocs, before.made
		for _, alloc := range job.allocs {
			alloc.desired, alloc.gone = "stop", far()
		}
	}
	c.jobs[id] = job
	c.evaluate(job)
}

// submit changes the specification of a job.
func (c *cluster) submit(job *fakeJob, change func()) {
	c.index++
	job.index = c.index
	job.version++
	change()
}

// place creates an allocation with the given index.
func (c *cluster) place(job *fakeJob, number int) *fakeAlloc {
	c.made++
	job.made++
	alloc := &fakeAlloc{
		id: fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(c.made*2654435761), c.made), desired: "run", client: "pending",
		number: number, created: time.Now(), version: job.version, gone: far(),
	}
	job.allocs = append(job.allocs, alloc)
	return alloc
}

// evaluate imitates the scheduler for a job.
func (c *cluster) evaluate(job *fakeJob) {
	want := job.count
	if job.stopped {
		want = 0
	}
	taken := map[int]bool{}
	for _, alloc := range slices.Clone(job.allocs) {
		switch {
		case alloc.desired != "run" || alloc.client == "complete" || alloc.client == "lost" || alloc.next != "":
		case alloc.client == "failed" && alloc.number < want && c.random.IntN(2) == 0:
			alloc.next = c.place(job, alloc.number).id
			taken[alloc.number] = true
		case alloc.number >= want || taken[alloc.number]:
			alloc.desired = "stop"
		default:
			taken[alloc.number] = true
			if alloc.version != job.version && job.deployed {
				alloc.healthy, alloc.turned = nil, time.Time{} // updated in place
			}
			alloc.version = job.version
		}
	}
	job.queued = 0
	for number := range want {
		if taken[number] {
			continue
		}
		if c.random.IntN(10) == 0 {
			job.queued++
			continue
		}
		c.place(job, number)
	}
	if job.deployed && job.deployment == "" && c.random.IntN(2) == 0 {
		job.deployment = "Deployment is running"
	}
}

// step makes one random change.
func (c *cluster) step() {
	job := c.any(c.lively)
	var alloc *fakeAlloc
	if len(job.allocs) > 0 {
		alloc = job.allocs[c.random.IntN(len(job.allocs))]
	}
	now := time.Now()
	runs := alloc != nil && alloc.client == "running"
	switch c.random.IntN(16) {
	case 0:
		if c.random.IntN(4) == 0 { // scaled, but not evaluated until later
			c.submit(job, func() { job.count = c.random.IntN(6) })
		}
	case 1, 2:
		c.evaluate(job)
	case 3, 4, 5:
		if alloc != nil && (alloc.client == "pending" || alloc.client == "unknown") && alloc.desired == "run" {
			if alloc.client == "pending" {
				alloc.started = now
			}
			alloc.client = "running"
		}
	case 6, 7:
		if alloc != nil && alloc.desired == "stop" && (runs || alloc.client == "pending") {
			alloc.client = "complete"
		}
	case 8:
		if runs && c.random.IntN(8) == 0 {
			alloc.client, alloc.events = "failed", "["+event("Terminated", "Exit Code: 3", false, now)+"]"
		}
	case 9:
		if runs && c.random.IntN(8) == 0 {
			alloc.client = "unknown"
		}
	case 10, 11:
		c.restart(job)
	case 12: // Nomad determines an allocation's health only until healthDeadline
		if runs && alloc.healthy == nil && now.Sub(alloc.started) < healthDeadline {
			healthy := c.random.IntN(5) > 0
			alloc.healthy, alloc.turned = &healthy, now
		}
	case 13:
		if job.deployment != "" {
			job.deployment = ""
			job.ended = append(job.ended, "successful")
			c.index++
			job.stable = c.index + 100_000
		}
	case 14: // a node is drained
		if runs && alloc.desired == "run" && alloc.number < job.count && c.random.IntN(4) == 0 {
			alloc.desired = "stop"
			c.place(job, alloc.number)
		}
	case 15:
		switch c.random.IntN(40) {
		case 0:
			c.register(job.id)
		case 1:
			c.submit(job, func() { job.stopped = !job.stopped })
		default: // garbage collection
			job.allocs = slices.DeleteFunc(job.allocs, func(a *fakeAlloc) bool {
				return a.client == "complete" || a.client == "lost" || a.client == "failed" && c.random.IntN(4) == 0
			})
		}
	}
}

// restart restarts a task of a job before its client has reported the end: after a failure, or at
// a user's request.
func (c *cluster) restart(job *fakeJob) {
	now := time.Now()
	for _, alloc := range job.allocs {
		if alloc.client == "running" && c.restarts && c.random.IntN(4) == 0 {
			alloc.started, alloc.events = now, ""
			if c.random.IntN(2) == 0 {
				alloc.events = "[" + event("Terminated", "Exit Code: 3", false, now) + "," + event("Restarting", "Task restarting", false, now) + "]"
			}
			return
		}
	}
}

// settleDown makes all allocations running and healthy.
func (c *cluster) settleDown() {
	for _, job := range c.jobs {
		for _, alloc := range job.allocs {
			healthy := true
			alloc.client, alloc.started, alloc.healthy, alloc.turned = "running", time.Now(), &healthy, time.Now()
		}
		job.deployment = ""
	}
}

// saved returns a function that restores the current state with its index.
func (c *cluster) saved() (restore func()) {
	index, jobs := c.index, map[string]*fakeJob{}
	for id, job := range c.jobs {
		clone := *job
		clone.allocs = nil
		for _, alloc := range job.allocs {
			one := *alloc
			clone.allocs = append(clone.allocs, &one)
		}
		jobs[id] = &clone
	}
	return func() { c.index, c.jobs = index, jobs }
}

// TestFollows checks that, at every tick, a fleet that reads only changed jobs has the same
// readings as a fleet that reads everything. There are a thousand changes per second, including
// changes that no list reveals and changes during a reading. Servers restart, lose their leader,
// or are restored from a backup.
func TestFollows(t *testing.T) {
	for name, c := range map[string]struct{ between, again bool }{
		"lists": {false, false}, "lists and unchanged jobs": {false, true}, "changes between calls": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { follow(t, c.between, c.again) })
		})
	}
}

// follow compares the readings of the two fleets. If unchanged jobs are not read again, the test
// makes no changes that only another read would find.
func follow(t *testing.T, between, again bool) {
	const jobs, ticks, changes, period = 60, 40, 15_000, 15 * time.Second
	i := unserved(t)
	c := &cluster{fakeServer: i, random: rand.New(rand.NewPCG(7, 0))}
	var refs []targets.Ref
	var all []int
	for n := range jobs {
		id := fmt.Sprintf("job-%02d", n)
		refs, all = append(refs, ref(id+"/app")), append(all, n)
		i.jobs[id] = nil
		c.register(id)
	}
	c.settleDown()
	disturbed, down := false, false
	open := newPiped(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		for range 20 {
			if disturbed {
				c.step()
			}
		}
		fails := down
		i.mu.Unlock()
		if fails {
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return
		}
		i.ServeHTTP(w, r)
	}))
	limits := readLimits{againAfter: time.Hour, page: 40, filter: 6 * len("job-00%7C")}
	if again {
		limits.againAfter, limits.filter = 0, longestFilter
	}
	whole := open(readLimits{always: 1 << 30, page: 40, filter: longestFilter}, &targettest.Store{})
	changed := open(limits, &targettest.Store{})
	c.restarts = again
	var restore func()
	lists := 0
	for tick := range ticks {
		i.mu.Lock()
		first := tick / 8 * 7 // different jobs change often at different times
		c.lively = append(slices.Clone(all), all...)[first%jobs:][:8]
		for n := range changes {
			if n%15 == 14 {
				i.mu.Unlock()
				time.Sleep(period / (changes / 15))
				i.mu.Lock()
			}
			c.step()
		}
		for range tick % 3 {
			c.restart(c.any(all))
		}
		switch tick % 20 {
		case 5:
			restore = c.saved()
		case 9: // another server becomes the leader
			c.index += 1000
		case 14: // the cluster is restored from a backup
			restore()
		}
		down = tick%20 == 11
		disturbed = between && tick%6 == 4
		i.mu.Unlock()
		i.filters["/v1/allocations"] = ""
		clear(i.calls)
		got, err := changed.Snapshot(t.Context(), refs)
		if down != errors.Is(err, targets.ErrTransient) || !down && err != nil {
			t.Fatalf("tick %d: error = %v, want ErrTransient only from a server without a leader", tick, err)
		}
		if strings.HasPrefix(i.filters["/v1/allocations"], "(JobID matches") {
			lists++
		}
		if down || disturbed {
			continue
		}
		want, err := whole.Snapshot(t.Context(), refs)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ordered(want, between), ordered(got, between), cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
			t.Fatalf("tick %d: readings (-all jobs +changed jobs):\n%s", tick, diff)
		}
	}
	if lists < ticks/3 {
		t.Errorf("ticks with lists of changed jobs = %d of %d, want more", lists, ticks)
	}
}

// slowStore is a store whose writes last for five seconds.
type slowStore struct{ targettest.Store }

func (s *slowStore) Save(ctx context.Context, key string, value []byte) error {
	time.Sleep(5 * time.Second)
	return s.Store.Save(ctx, key, value)
}

// TestSlowStore checks that a read does not wait for a slow store until its limit.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := unserved(t)
		i.add("web", 2)
		store := new(slowStore)
		f := newPiped(t, i)(defaultLimits, store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		readings, err := f.Snapshot(ctx, []targets.Ref{ref("web/app")})
		if took := time.Since(began); err != nil || readings[ref("web/app")].StatusReplicas != 2 || took > time.Second/2 {
			t.Errorf("Snapshot() = %+v, %v after %v, want 2 replicas long before the limit", readings, err, took)
		}
		time.Sleep(10 * time.Second)
		if stored, err := store.List(t.Context(), shardPrefix); err != nil || len(stored) == 0 {
			t.Errorf("stored entries = %q, %v, want the records", stored, err)
		}
	})
}

// ordered sorts the instances of readings. If the fleets read at different times (apart), it omits
// values that depend on earlier readings.
func ordered(readings map[targets.Ref]targets.Reading, apart bool) map[targets.Ref]targets.Reading {
	for ref, reading := range readings {
		type both struct {
			policy.Instance
			targets.Location
		}
		all := make([]both, len(reading.Instances))
		for n := range all {
			all[n] = both{reading.Instances[n], reading.Locations.At(n)}
			if apart {
				all[n].ReadinessChanged, all[n].Readiness = time.Time{}, policy.ReadinessTrue
				if all[n].Phase != policy.PhaseRunning {
					all[n].StartedAt = time.Time{}
				}
			}
		}
		slices.SortFunc(all, func(a, b both) int { return strings.Compare(a.ID, b.ID) })
		reading.Instances = nil
		var locations targets.LocationList
		for _, one := range all {
			reading.Instances, locations = append(reading.Instances, one.Instance), append(locations, one.Location)
		}
		reading.Locations = locations
		readings[ref] = reading
	}
	return readings
}
