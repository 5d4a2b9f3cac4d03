package graph

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

var begin = time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)

func newStore(t testing.TB) *Store {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "graph.db"), zaptest.NewLogger(t), func(n int) { t.Errorf("%d points were lost", n) })
	s.noSync = true
	t.Cleanup(func() {
		if s.db != nil {
			_ = s.db.Close()
		}
	})
	return s
}

var names = []string{"cpu", "queue"}

// pointAt returns a point of an autoscaler whose count oscillates slowly, with noisy metrics.
func pointAt(at time.Time, random *rand.Rand) *Point {
	count := int32(20 + 10*math.Sin(float64(at.Unix())/7000))
	return &Point{
		Tick: simulate.Tick{
			Time: at, Replicas: count, Desired: count + int32(random.IntN(2)), Observed: count, Ready: count,
			Readings: []simulate.Reading{
				{
					Milli: int64(count) * int64(700+100*random.NormFloat64()), Groups: &policy.Groups{Ready: int(count)},
					Requests: &policy.Requests{Ready: int64(count) * 1000},
				},
				{Milli: 1000 * random.Int64N(1_000_000)},
			},
		},
		Min: 2, Max: 50, Target: 0x12345678,
		Metrics: []Metric{{Proposal: count, Unit: Percent}, {Proposal: count + 1, Unit: Whole}},
	}
}

// fill adds a point for each autoscaler in each period, and flushes regularly like Run.
func fill(s *Store, from, until time.Time, period time.Duration, autoscalers int) {
	random := rand.New(rand.NewPCG(1, 2))
	flushed := from
	for at := from; at.Before(until); at = at.Add(period) {
		for i := range autoscalers {
			s.Add(&Subject{fmt.Sprintf("autoscaler-%05d", i), names}, pointAt(at, random))
		}
		if at.Sub(flushed) >= 4*flushEvery { // less often than Run does, to save time
			s.Flush(at)
			flushed = at
		}
	}
	s.Flush(until)
}

// TestEightDays adds points for eight days. It checks that recordings are complete, that graphs contain
// one point per five minutes before the last six hours, and that the file has the documented size.
// Without space for the points of a quarter, recordings are thinned, too.
func TestEightDays(t *testing.T) {
	for _, test := range []struct {
		name   string
		period time.Duration
		limit  int
		size   int
	}{
		{"15s", 15 * time.Second, maxQuarter, 600_000},
		{"7m", 7 * time.Minute, maxQuarter, 80_000},
		{"15s in large quarters", 15 * time.Second, 100, 130_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.maxQuarter = test.limit
			const autoscalers = 6
			end := begin.Add(8*24*time.Hour + 5*time.Hour)
			fill(s, begin, end, test.period, autoscalers)
			got, err := s.Read("autoscaler-00003", begin, end)
			if err != nil {
				t.Fatal(err)
			}
			recording, err := s.Recording("autoscaler-00003", begin, end)
			if err != nil {
				t.Fatal(err)
			}
			var recorded []int64
			for i := range recording.Ticks {
				recorded = append(recorded, recording.Ticks[i].Time.Unix())
			}
			thinnedTo := max(test.period, thin)
			checkTimes(t, "graph", got.Time, end, test.period, thinnedTo)
			if test.limit == maxQuarter {
				thinnedTo = test.period
			}
			checkTimes(t, "recording", recorded, end, test.period, thinnedTo)
			s.maxTicks = 5000
			if short, err := s.Recording("autoscaler-00003", begin, end); err != nil || len(recorded) > 6000 &&
				(len(short.Ticks) < 5000 || len(short.Ticks) > 5000+1440 || !short.Ticks[len(short.Ticks)-1].Time.Equal(recording.Ticks[len(recorded)-1].Time) ||
					len(short.Notes) != 1 || !strings.HasPrefix(short.Notes[0].Text, "the recording begins here")) {
				t.Errorf("%d ticks with the notes %v, %v, want about 5000", len(short.Ticks), short.Notes, err)
			}
			used := 0
			_ = s.db.View(func(tx *bolt.Tx) error {
				return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
					stats := b.Stats()
					used += stats.BranchAlloc + stats.LeafAlloc
					return nil
				})
			})
			t.Logf("%d points, %d bytes per autoscaler", len(recorded), used/autoscalers)
			if used/autoscalers > test.size {
				t.Errorf("an autoscaler uses %d bytes, want at most %d", used/autoscalers, test.size)
			}
		})
	}
}

// checkTimes checks the intervals between the points of seven days before end, in Unix seconds: recent
// in the last six hours, and old before that.
func checkTimes(t *testing.T, what string, times []int64, end time.Time, recent, old time.Duration) {
	t.Helper()
	for i := 1; i < len(times); i++ {
		gap, want := time.Duration(times[i]-times[i-1])*time.Second, old
		if times[i-1] > end.Add(-full).Unix() {
			want = recent
		}
		if gap <= 0 || gap > want+recent {
			t.Fatalf("%s: interval after the point at %v = %v, want %v", what, times[i-1], gap, want)
		}
	}
	first, last := time.Unix(times[0], 0), time.Unix(times[len(times)-1], 0)
	if age := end.Sub(first); age < retention-thin || age > retention+quarter+hour {
		t.Errorf("%s: age of the oldest point = %v, want %v", what, age, retention)
	}
	if age := end.Sub(last); age > recent {
		t.Errorf("%s: age of the newest point = %v", what, age)
	}
}

// randomPoint returns a point with random values for metrics, of which the last can be a formula.
func randomPoint(at time.Time, metrics []string, random *rand.Rand) Point {
	count := func() *int32 {
		if random.IntN(2) == 0 {
			return nil
		}
		return new(random.Int32())
	}
	p := Point{
		Tick: simulate.Tick{
			Time: at, Replicas: random.Int32N(200_000), Desired: random.Int32N(5), Reached: count(), Observed: random.Int32(), Ready: random.Int32() - 1,
			Case: cases[random.IntN(len(cases))], Prevented: directions[random.IntN(len(directions))], Outage: random.IntN(2) == 0,
			PlatformMin: count(), PlatformMax: count(),
		},
		Min: 1, Max: random.Int32(), Target: uint32(len(metrics)),
	}
	if random.IntN(5) == 0 {
		p.Replicas, p.Desired = Unknown, Unknown
	}
	if n := count(); n != nil {
		p.Command = &policy.Command{Replicas: *n, Force: random.IntN(2) == 0}
	}
	for _, name := range metrics {
		p.Metrics = append(p.Metrics, Metric{Proposal: random.Int32() - 1, Unit: Whole})
		if name == "formula" {
			p.Metrics[len(p.Metrics)-1].Formula = random.Int64()
			continue
		}
		reading := simulate.Reading{Milli: random.Int64() - random.Int64(), Partial: random.IntN(3) == 0, Missing: random.IntN(3) == 0}
		if name == "cpu" {
			reading.Groups = &policy.Groups{Ready: random.IntN(9), Unready: random.IntN(9), Missing: random.IntN(9), Ignored: random.IntN(9), Extraneous: random.IntN(9)}
			reading.Requests = &policy.Requests{Ready: random.Int64(), Missing: random.Int64(), Unready: random.Int64()}
		}
		p.Readings = append(p.Readings, reading)
	}
	return p
}

// TestValues checks that values survive changes to the metrics, flushes and joins of hours.
func TestValues(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(3, 4))
	sets := [][]string{nil, {"cpu"}, {"cpu", "queue"}, {"queue", "formula"}}
	var added []Point
	at := begin.Add(50 * time.Minute)
	for i := range 300 {
		at = at.Add(time.Duration(50_000+random.IntN(10_000)) * time.Millisecond)
		p := randomPoint(at, sets[i/9%len(sets)], random)
		added = append(added, p)
		s.Add(&Subject{"web", sets[i/9%len(sets)]}, &p)
		s.Add(&Subject{Name: "web2"}, &Point{Tick: simulate.Tick{Time: at, Replicas: 7}}) // the other name is a prefix of this name
		if i%7 == 0 {
			s.Flush(at)
		}
		if i%50 == 49 { // simulates a restart
			s.Flush(at)
			_ = s.db.Close()
			s.db = nil
			s.Flush(at)
		}
	}
	got, err := s.Recording("web", begin, at.Add(time.Minute))
	if err != nil || len(got.Ticks) != len(added) || !slices.Equal(got.Metrics, []string{"cpu", "queue"}) || got.Step < 45*time.Second || got.Step > time.Minute {
		t.Fatalf("%d ticks of %v every %v, %v, want %d", len(got.Ticks), got.Metrics, got.Step, err, len(added))
	}
	if len(got.Notes) != 33-8 { // the sets change 33 times, and 8 times the next set has as many metrics
		t.Errorf("%d notes: %v", len(got.Notes), got.Notes)
	}
	for i, p := range added {
		want := p.Tick
		var readings []simulate.Reading
		if metrics := sets[i/9%len(sets)]; metrics != nil {
			for _, name := range got.Metrics {
				reading := simulate.Reading{Missing: true}
				if at := slices.Index(metrics, name); at >= 0 {
					reading = want.Readings[at]
				}
				readings = append(readings, reading)
			}
		}
		want.Readings = readings
		if diff := cmp.Diff(want, got.Ticks[i], cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
			t.Fatalf("tick %d (-want +got):\n%s", i, diff)
		}
	}
	if unknown, err := s.Recording("we", begin, at); err != nil || len(unknown.Ticks) > 0 {
		t.Errorf("points of an unknown autoscaler = %d, %v", len(unknown.Ticks), err)
	}
}

// TestGraphValues checks the values of metrics in graphs.
func TestGraphValues(t *testing.T) {
	s := newStore(t)
	reading := simulate.Reading{Milli: 123_456_789, Groups: &policy.Groups{Ready: 2, Extraneous: 1}, Requests: &policy.Requests{Ready: 1_000_000}}
	p := Point{Tick: simulate.Tick{Time: begin, Replicas: 3, Desired: Unknown, Observed: 4}, Min: 1, Max: 9}
	subject := Subject{Name: "web"}
	want := map[string]float64{"whole": 123460, "per instance": 30864, "per sample": 41152, "percent": 12345, "failed": math.NaN(), "formula": 1.5}
	for _, m := range []struct {
		name string
		unit Unit
	}{{"whole", Whole}, {"per instance", PerInstance}, {"per sample", PerSample}, {"percent", Percent}, {"failed", NoValue}} {
		subject.Metrics = append(subject.Metrics, m.name)
		p.Metrics, p.Readings = append(p.Metrics, Metric{Proposal: Unknown, Unit: m.unit}), append(p.Readings, reading)
	}
	subject.Metrics, p.Metrics = append(subject.Metrics, "formula"), append(p.Metrics, Metric{Proposal: 5, Unit: Whole, Formula: 1500})
	s.Add(&subject, &p)
	got, err := s.Read("web", begin, begin.Add(time.Second))
	if err != nil || len(got.Time) != 1 || got.Time[0] != begin.Unix() || got.Replicas[0] != 3 || !math.IsNaN(got.Desired[0]) || got.Min[0] != 1 || got.Max[0] != 9 {
		t.Fatalf("graph = %+v, %v", got, err)
	}
	for _, m := range got.Metrics {
		if value := m.Values[0]; value != want[m.Name] && !(math.IsNaN(value) && math.IsNaN(want[m.Name])) {
			t.Errorf("value of %q = %v, want %v", m.Name, value, want[m.Name])
		}
		if m.Name == "formula" != (m.Proposals[0] == 5) {
			t.Errorf("proposal of %q = %v", m.Name, m.Proposals[0])
		}
	}
}

// TestWants checks that each pass has a point unless the autoscalers have more than maxPasses passes
// in a minute.
func TestWants(t *testing.T) {
	s := newStore(t)
	throttled := func(when string) {
		t.Helper()
		if s.Wants(0, 14) || !s.Wants(0, 15) {
			t.Errorf("%s: points 14 s and 15 s after a point = %v and %v, want false and true", when, s.Wants(0, 14), s.Wants(0, 15))
		}
	}
	for pass := range int64(maxPasses) {
		if !s.Wants(pass, pass+1) {
			t.Fatalf("pass %d has no point", pass)
		}
	}
	throttled("after too many passes")
	s.Flush(begin)
	throttled("in the next minute")
	s.Flush(begin.Add(time.Minute))
	if !s.Wants(0, 1) {
		t.Error("no point after a minute with few passes")
	}
}

// TestDamage checks that a damaged, truncated or deleted file is logged and replaced.
func TestDamage(t *testing.T) {
	end := begin.Add(3 * time.Hour)
	for name, damage := range map[string]func(path string, s *Store) error{
		"removed": func(path string, _ *Store) error { return os.Remove(path) },
		"garbage": func(path string, s *Store) error {
			_ = s.db.Close()
			s.db = nil
			return os.WriteFile(path, bytes.Repeat([]byte("garbage"), 20000), 0o600)
		},
		"truncated": func(path string, s *Store) error {
			return os.Truncate(path, pageSize)
		},
		"truncated while closed": func(path string, s *Store) error {
			_ = s.db.Close()
			s.db = nil
			return os.Truncate(path, pageSize)
		},
		"a block": func(_ string, s *Store) error {
			return s.db.Update(func(tx *bolt.Tx) error {
				hour := tx.Bucket(hoursBucket).Bucket(spanKey(spanOf(end, hour) - 1))
				return hour.ForEach(func(key, value []byte) error {
					value = bytes.Clone(value)
					value[len(value)/2] ^= 4
					return hour.Put(key, value)
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			lost := 0
			s := New(filepath.Join(t.TempDir(), "graph.db"), zap.New(core), func(n int) { lost += n })
			defer func() {
				if s.db != nil {
					_ = s.db.Close()
				}
			}()
			fill(s, begin, end.Add(-time.Minute), 15*time.Second, 5)
			if err := damage(s.path, s); err != nil {
				t.Fatal(err)
			}
			_, _ = s.Read("autoscaler-00001", begin, end) // must not panic
			fill(s, end, end.Add(3*time.Hour), 15*time.Second, 5)
			got, err := s.Read("autoscaler-00001", end.Add(time.Hour), end.Add(3*time.Hour))
			if err != nil || len(got.Time) != 480 {
				t.Errorf("points after the damage = %d, %v, want 480", len(got.Time), err)
			}
			if name != "removed" && logs.FilterMessageSnippet("damaged").Len() != 1 {
				t.Errorf("damage was logged %d times, want 1", logs.FilterMessageSnippet("damaged").Len())
			}
			if lost > 100 {
				t.Errorf("%d points were lost", lost)
			}
		})
	}
}

// TestSystemErrors checks that errors from the operating system do not delete stored points,
// even if bbolt returns only their text.
func TestSystemErrors(t *testing.T) {
	for _, failure := range []error{
		errors.New("file resize error: " + syscall.ENOSPC.Error()), &fs.PathError{Op: "write", Path: "graph.db", Err: syscall.EIO}, bolterrors.ErrTimeout,
	} {
		core, logs := observer.New(zap.WarnLevel)
		s := New(filepath.Join(t.TempDir(), "graph.db"), zap.New(core), func(int) {})
		fill(s, begin, begin.Add(time.Hour), 15*time.Second, 1)
		s.report(failure, 3)
		if got, err := s.Read("autoscaler-00000", begin, begin.Add(time.Hour)); err != nil || len(got.Time) != 240 {
			t.Errorf("points after %v = %v, %v, want 240", len(got.Time), failure, err)
		}
		if logs.FilterMessage("graph store write failed").Len() != 1 || logs.Len() != 1 {
			t.Errorf("log after %v = %v", failure, logs.All())
		}
		_ = s.db.Close()
	}
}

// TestNoDisk checks that points are lost with one warning if the file cannot be created, and that
// the file is created later.
func TestNoDisk(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	lost := 0
	dir := filepath.Join(t.TempDir(), "not-there")
	s := New(filepath.Join(dir, "graph.db"), zap.New(core), func(n int) { lost += n })
	fill(s, begin, begin.Add(30*time.Minute), 15*time.Second, 2)
	if lost != 240 || logs.Len() != 1 || logs.All()[0].Level != zap.WarnLevel {
		t.Errorf("lost points = %d, want 240; log lines = %d, want 1", lost, logs.Len())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fill(s, begin.Add(30*time.Minute), begin.Add(time.Hour), 15*time.Second, 2)
	defer func() { _ = s.db.Close() }()
	if got, err := s.Read("autoscaler-00000", begin, begin.Add(time.Hour)); err != nil || len(got.Time) != 120 || lost != 240 {
		t.Errorf("points = %d, %v, lost points = %d, want 120 and 240", len(got.Time), err, lost)
	}
	if logs.FilterMessage("graph store recovered").Len() != 1 {
		t.Error("no message after the recovery")
	}
}

// BenchmarkStore measures the total cost per point.
func BenchmarkStore(b *testing.B) {
	s := newStore(b)
	const autoscalers = 1000
	random := rand.New(rand.NewPCG(1, 2))
	subjects := make([]Subject, autoscalers)
	for i := range subjects {
		subjects[i] = Subject{fmt.Sprintf("autoscaler-%05d", i), names}
	}
	p := pointAt(begin, random)
	b.ReportAllocs()
	at, n := begin, 0
	for b.Loop() {
		p.Time, p.Readings[1].Milli = at, random.Int64N(1e9)
		s.Add(&subjects[n], p)
		if n++; n == autoscalers {
			n, at = 0, at.Add(15*time.Second)
			if at.Unix()%60 == 0 {
				s.Flush(at)
			}
		}
	}
}

// BenchmarkRecording measures reading the points of a week.
func BenchmarkRecording(b *testing.B) {
	s := newStore(b)
	end := begin.Add(7 * 24 * time.Hour)
	fill(s, begin, end, 15*time.Second, 1)
	for b.Loop() {
		if recording, err := s.Recording("autoscaler-00000", begin, end); err != nil || len(recording.Ticks) < 40_000 {
			b.Fatal(len(recording.Ticks), err)
		}
	}
}
