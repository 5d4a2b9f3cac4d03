package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/targettest"
)

// foreignEvent is the reason of the event for a change by an external writer.
const foreignEvent = string(policy.ForeignWriter)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a daemon with in-memory dependencies for a synctest bubble.
type world struct {
	t testing.TB
	// graph may be nil.
	graph   *graph.Store
	fleets  map[string]*targettest.Memory
	sources map[string]*memorySource
	store   *memoryStore
	config  *config.Config
	loadErr error
	dryRun  bool
	// kind is the kind of the fleets. If it is empty, the kind is "memory".
	kind         string
	until        func() time.Time
	storeTimeout time.Duration
	// blind disables the samples of the fleets.
	blind bool
	log   *zap.Logger
	// metrics may be nil.
	metrics *metrics.Metrics
	// sourceKind and sourceConfig, if not nil, create the sources and their configuration.
	sourceKind   func(name string) sources.Source
	sourceConfig func() any
	// fleetKind and fleetConfig, if not nil, create the fleets and their configuration.
	fleetKind   func(*targettest.Memory) targets.Fleet
	fleetConfig func() targets.Config
	// discover enables discovery in all fleets.
	discover    bool
	labelLimits targets.LabelLimits
	// breaker is the breaker of all fleets, or nil.
	breaker *config.Breaker
	// starting, if not nil, is called before a daemon runs.
	starting func()
	// boot is the boot ID of the host. step is the sum of the clock steps; change it with
	// stepClock.
	boot string
	step atomic.Int64
	// notified lists the states sent to the service manager.
	notified []string
	telling  sync.Mutex

	// env is the Env of the last fleet.
	env targets.Env

	daemon *Daemon
	cancel context.CancelFunc
	ended  chan error
}

func newWorld(t testing.TB) *world {
	return &world{
		t:       t,
		fleets:  map[string]*targettest.Memory{"fleet": targettest.NewMemory("fleet")},
		sources: map[string]*memorySource{"source": newMemorySource()},
		store:   newMemoryStore(),
		boot:    "boot-1",
		log:     zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
		config: &config.Config{
			Daemon:      config.DefaultDaemon(),
			Autoscalers: map[string]*config.Autoscaler{},
		},
	}
}

// inWorld runs a test with a new world in a synctest bubble.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w)
		w.verifyHistory()
	})
}

// verifyHistory checks that all recorded decisions are reproducible.
func (w *world) verifyHistory() {
	w.t.Helper()
	entries, err := w.store.History(w.t.Context(), "", time.Time{}, time.Time{}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range entries {
		if entries[i].Decision.Time.IsZero() || entries[i].Reason == reason.Panicked.String() { // no decision
			continue
		}
		in := entries[i].Inputs
		if in == nil {
			w.t.Errorf("no inputs for the decision %+v", entries[i].Decision)
			continue
		}
		recorded, err1 := json.Marshal(entries[i].Decision)
		again, err2 := json.Marshal(in.Decide().Explained())
		if err1 != nil || err2 != nil || string(recorded) != string(again) {
			w.t.Errorf("a recomputed decision differs from the recorded one (%v, %v):\n%s\n%s", err1, err2, recorded, again)
		}
	}
}

func (w *world) fleet() *targettest.Memory { return w.fleets["fleet"] }

func (w *world) source() *memorySource { return w.sources["source"] }

// queue adds a target and an autoscaler with the same name. The autoscaler has an external metric
// whose value is the proposed count.
func (w *world) queue(name string, replicas int32, edit ...func(*config.Autoscaler)) {
	w.fleet().Add(name, targettest.MemoryTarget{Replicas: replicas, Age: time.Hour})
	one := int64(1000)
	low := int32(1)
	a := &config.Autoscaler{
		Name:       name,
		Target:     w.fleet().Ref(name),
		SyncPeriod: w.config.Daemon.SyncPeriod,
		Spec: policy.Spec{
			MinReplicas: &low, MaxReplicas: 100,
			Metrics: []policy.MetricSpec{{
				Type: policy.ExternalMetric, Name: "queue",
				Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &one},
			}},
		},
		Inputs: []config.Input{{Source: "source", Query: name}},
	}
	for _, f := range edit {
		f(a)
	}
	a.Spec = policy.Default(a.Spec)
	w.config.Autoscalers[name] = a
}

// fed calls queue and sets the value of the metric.
func (w *world) fed(name string, replicas int32, value float64, edit ...func(*config.Autoscaler)) {
	w.queue(name, replicas, edit...)
	w.source().value(name, value)
}

// load returns a copy of the configuration.
func (w *world) load(context.Context) (*config.Config, error) {
	if w.loadErr != nil {
		return nil, w.loadErr
	}
	c := *w.config
	c.Autoscalers = map[string]*config.Autoscaler{}
	for name, a := range w.config.Autoscalers {
		c.Autoscalers[name] = new(*a)
	}
	c.Fleets = map[string]config.Fleet{}
	for name := range w.fleets {
		next := config.Fleet{Name: name, Kind: cmp.Or(w.kind, "memory"), Config: fleetTable{w, nil}, Discover: w.discover, LabelLimits: w.labelLimits, Breaker: w.breaker}
		if w.fleetConfig != nil {
			next.Config = w.fleetConfig()
		}
		c.Fleets[name] = next
	}
	c.Sources = map[string]config.Source{}
	for name := range w.sources {
		next := config.Source{Name: name, Kind: "memory", Config: sourceTable{w, nil}}
		if w.sourceConfig != nil {
			next.Config = sourceTable{w, w.sourceConfig()}
		}
		c.Sources[name] = next
	}
	return &c, nil
}

// fleetTable is the configuration of a fleet. Tests set given to make configurations differ.
type fleetTable struct {
	*world
	given any
}

func (fleetTable) SetDefaults()                    {}
func (fleetTable) Validate() []settings.FieldError { return nil }

func (c fleetTable) Build(name string, env targets.Env) (targets.Fleet, error) {
	c.env = env
	memory := c.fleets[name]
	switch {
	case c.fleetKind != nil:
		return c.fleetKind(memory), nil
	case c.blind:
		return struct{ targets.Fleet }{memory}, nil
	}
	return memory, nil
}

// sourceTable is the configuration of a source. Tests set given to make configurations differ.
type sourceTable struct {
	*world
	given any
}

func (sourceTable) SetDefaults()                    {}
func (sourceTable) Validate() []settings.FieldError { return nil }

func (c sourceTable) Build(name string, _ sources.Env) (sources.Source, error) {
	if c.sourceKind != nil {
		return c.sourceKind(name), nil
	}
	return c.sources[name], nil
}

// start runs a daemon until stop, or until the test ends.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.cancel, w.ended = cancel, make(chan error, 1)
	w.daemon = New(Options{
		Load:   w.load,
		Store:  w.store,
		Log:    w.log,
		DryRun: w.dryRun, Until: w.until, StoreTimeout: w.storeTimeout, Metrics: w.metrics, Graph: w.graph,
		Clock: clock.System{Wall: w.wall, Boot: w.monotonic},
		Notify: func(state string) {
			w.telling.Lock()
			defer w.telling.Unlock()
			w.notified = append(w.notified, state)
		},
	})
	ended, daemon := w.ended, w.daemon
	if w.starting != nil {
		w.starting()
		synctest.Wait()
	}
	go func() { ended <- daemon.Run(ctx) }()
	synctest.Wait()
}

// wall returns the time of the wall clock, including steps.
func (w *world) wall() time.Time { return time.Now().Add(time.Duration(w.step.Load())) }

// monotonic returns the boot ID and the time since the boot, which precedes the synctest bubble.
func (w *world) monotonic() (string, time.Duration) {
	return w.boot, time.Since(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC))
}

func (w *world) stepClock(by time.Duration) { w.step.Add(int64(by)) }

func (w *world) stop() {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.t.Errorf("Run returned %v", err)
	}
	if err := w.missingReason(); err != nil {
		w.t.Error(err)
	}
}

// advance waits until everything that is due within d has happened.
func (w *world) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) view(name string) api.Autoscaler {
	w.t.Helper()
	view, ok := w.daemon.Autoscaler(name)
	if !ok {
		w.t.Fatalf("autoscaler %q not found", name)
	}
	return view
}

// record returns the record of an autoscaler after its last pass.
func (w *world) record(name string) state.Record {
	w.t.Helper()
	pass, ok := w.daemon.LastPass(name)
	if !ok {
		w.t.Fatalf("autoscaler %q not found", name)
	}
	return pass.Record
}

func (w *world) reasons(name string) []string {
	var reasons []string
	for _, event := range w.view(name).Events {
		reasons = append(reasons, fmt.Sprintf("%s x%d", event.Reason, event.Count))
	}
	return reasons
}

func (w *world) condition(name string, kind policy.ConditionType) string {
	for _, c := range w.view(name).Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

// writes returns the successful writes to a target as "offset: from>to".
func (w *world) writes(name string, since time.Time) []string {
	var all []string
	for _, write := range w.fleet().Writes() {
		if write.Ref.Name == name && (write.Err == nil || errors.Is(write.Err, targets.ErrUnknownOutcome)) {
			all = append(all, fmt.Sprintf("%s: %d>%d", write.At.Sub(since), write.From, write.To))
		}
	}
	return all
}

// memorySource is a source with results set by tests.
type memorySource struct {
	mu      sync.Mutex
	results map[string]func(ctx context.Context, at time.Time) (sources.Vector, error)
	calls   map[string]int
	// labels maps each query to the labels of its last call.
	labels map[string][]string
	// diagnose returns the results of diagnoses. If it is nil, all results are empty.
	diagnose func(ctx context.Context, text string, at time.Time) (sources.Vector, error)
}

func newMemorySource() *memorySource {
	return &memorySource{results: map[string]func(context.Context, time.Time) (sources.Vector, error){}, calls: map[string]int{}, labels: map[string][]string{}}
}

func (s *memorySource) Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	text := query.Text
	if query.MaxAge > 0 { // a different query
		text += " within " + query.MaxAge.String()
	}
	s.mu.Lock()
	s.calls[text]++
	s.labels[text] = query.Labels
	result, diagnose := s.results[text], s.diagnose
	s.mu.Unlock()
	if query.Diagnosis && diagnose != nil {
		return diagnose(ctx, query.Text, at)
	}
	if result == nil {
		return sources.Vector{}, nil
	}
	return result(ctx, at)
}

func (s *memorySource) setDiagnose(diagnose func(ctx context.Context, text string, at time.Time) (sources.Vector, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.diagnose = diagnose
}

func (s *memorySource) set(text string, result func(ctx context.Context, at time.Time) (sources.Vector, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[text] = result
}

// value makes a query return one series.
func (s *memorySource) value(text string, value float64) {
	s.set(text, func(_ context.Context, at time.Time) (sources.Vector, error) { return one(value, at), nil })
}

// hangs blocks a query until its context ends.
func (s *memorySource) hangs(text string) {
	s.set(text, func(ctx context.Context, _ time.Time) (sources.Vector, error) {
		<-ctx.Done()
		return sources.Vector{}, ctx.Err()
	})
}

func (s *memorySource) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[text]
}

func one(value float64, at time.Time) sources.Vector {
	return sources.Vector{Series: []sources.Series{{Value: value, At: at}}}
}

// memoryStore is an in-memory state store.
type memoryStore struct {
	mu       sync.Mutex
	snapshot state.Snapshot
	entries  []state.Entry
	commits  int
	written  int
	failing  error
	// most is the number of commits that succeed before commits fail; 0 means no limit.
	most int
	// slow is the duration of each commit.
	slow time.Duration
	// largest is the maximum size of a record in bytes of JSON; 0 means no limit.
	largest   int
	fleetKeep map[string]targets.Store
	losses    []state.Loss
}

func newMemoryStore() *memoryStore {
	return &memoryStore{snapshot: state.Snapshot{Autoscalers: map[string]state.Record{}}, fleetKeep: map[string]targets.Store{}}
}

func (s *memoryStore) Load(context.Context) (state.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loaded := state.Snapshot{LastRound: s.snapshot.LastRound, Clock: s.snapshot.Clock, Autoscalers: map[string]state.Record{}}
	for name, record := range s.snapshot.Autoscalers {
		if replay := record.Replay; replay != nil {
			for tick := ticks.Next(record.Through, replay.Period); !tick.After(loaded.LastRound); tick = ticks.Next(tick, replay.Period) {
				record.Memory.Recommendations = policy.Remember(replay.Rules, record.Memory.Recommendations, policy.Recommendation{Replicas: replay.Replicas, Held: replay.Held, Time: tick})
				record.Through = tick
			}
		}
		loaded.Autoscalers[name] = record
	}
	loaded.Pauses, loaded.Removals = slices.Clone(s.snapshot.Pauses), maps.Clone(s.snapshot.Removals)
	return loaded, nil
}

func (s *memoryStore) Export(context.Context, io.Writer, bool) error { return errors.ErrUnsupported }

func (s *memoryStore) Commit(_ context.Context, changes state.Changes) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return s.failing
	}
	if s.most > 0 && s.commits >= s.most {
		return errors.New("no more commits")
	}
	s.commits++
	rejected := state.RejectedError{}
	for name, record := range changes.Records {
		if text, _ := json.Marshal(record); s.largest > 0 && len(text) > s.largest {
			rejected[name] = fmt.Errorf("it has %d bytes, but the limit is %d", len(text), s.largest)
		}
	}
	changes.Records = maps.Clone(changes.Records)
	maps.DeleteFunc(changes.Records, func(name string, _ state.Record) bool { return rejected[name] != nil })
	s.written += len(changes.Records)
	for _, name := range changes.Deleted {
		delete(s.snapshot.Autoscalers, name)
	}
	maps.Copy(s.snapshot.Autoscalers, changes.Records)
	for scope, pause := range changes.Pauses {
		s.snapshot.Pauses = slices.DeleteFunc(slices.Clone(s.snapshot.Pauses), func(p policy.Pause) bool { return p.Scope == scope })
		if pause != nil {
			s.snapshot.Pauses = append(s.snapshot.Pauses, *pause)
		}
	}
	if s.snapshot.Removals == nil {
		s.snapshot.Removals = map[string]state.Removals{}
	}
	maps.Copy(s.snapshot.Removals, changes.Removals)
	if !changes.LastRound.IsZero() {
		s.snapshot.LastRound = changes.LastRound
	}
	if !changes.Clock.Time.IsZero() {
		s.snapshot.Clock = changes.Clock
	}
	s.entries = append(s.entries, changes.Entries...)
	if len(rejected) > 0 {
		return rejected
	}
	return nil
}

func (s *memoryStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
}

// copied returns a copy of the store, with the state that a kill at this moment would leave.
func (s *memoryStore) copied() *memoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memoryStore{
		snapshot:  state.Snapshot{LastRound: s.snapshot.LastRound, Clock: s.snapshot.Clock, Autoscalers: maps.Clone(s.snapshot.Autoscalers), Pauses: s.snapshot.Pauses, Removals: maps.Clone(s.snapshot.Removals)},
		entries:   slices.Clone(s.entries),
		fleetKeep: maps.Clone(s.fleetKeep),
		losses:    slices.Clone(s.losses),
	}
}

// records returns the number of written records.
func (s *memoryStore) records() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func (s *memoryStore) slowDown(commit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = commit
}

func (s *memoryStore) record(name string) (state.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, ok := s.snapshot.Autoscalers[name]
	return record, ok
}

func (s *memoryStore) Fleet(name string) targets.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleetKeep[name] == nil {
		s.fleetKeep[name] = new(targettest.Store)
	}
	return s.fleetKeep[name]
}

func (s *memoryStore) History(_ context.Context, name string, from, to time.Time, limit int) ([]state.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []state.Entry
	for _, entry := range s.entries {
		if (name == "" || entry.Autoscaler == name) && !entry.Time.Before(from) && (to.IsZero() || entry.Time.Before(to)) {
			found = append(found, entry)
		}
	}
	if limit > 0 {
		found = found[max(0, len(found)-limit):]
	}
	return found, nil
}

// Verify is unsupported, because verification needs the encoded entries.
func (s *memoryStore) Verify(context.Context, string, time.Time, time.Time) (state.Verification, error) {
	return state.Verification{}, errors.ErrUnsupported
}

func (s *memoryStore) Losses() []state.Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.losses)
}

func (s *memoryStore) Close() error { return nil }

func contains(all []string, part string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) })
}
