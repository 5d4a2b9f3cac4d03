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
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
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
		Time: at, Replicas: count, Desired: count + int32(random.IntN(2)), Min: 2, Max: 50,
		Values: []float64{float64(count), 70 + 10*random.NormFloat64(), float64(count + 1), 1e6 * random.Float64()},
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

// TestEightDays adds points for eight days. It checks that the last six hours are complete, that
// the last week is thinned, and that the file has the documented size.
func TestEightDays(t *testing.T) {
	for _, period := range []time.Duration{15 * time.Second, 7 * time.Minute} {
		t.Run(period.String(), func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			const autoscalers = 6
			end := begin.Add(8*24*time.Hour + 5*time.Hour)
			fill(s, begin, end, period, autoscalers)
			got, err := s.Read("autoscaler-00003", begin, end)
			if err != nil {
				t.Fatal(err)
			}
			full := end.Add(-full)
			for i := 1; i < len(got.Time); i++ {
				gap, want := time.Duration(got.Time[i]-got.Time[i-1])*time.Second, max(period, thin)
				if got.Time[i-1] > full.Unix() {
					want = period
				}
				if gap <= 0 || gap > want+period {
					t.Fatalf("interval after the point at %v = %v, want %v", got.Time[i-1], gap, want)
				}
			}
			first, last := time.Unix(got.Time[0], 0), time.Unix(got.Time[len(got.Time)-1], 0)
			if age := end.Sub(first); age < retention-thin || age > retention+quarter+hour {
				t.Errorf("age of the oldest point = %v, want %v", age, retention)
			}
			if age := end.Sub(last); age > period {
				t.Errorf("age of the newest point = %v", age)
			}
			used := 0
			_ = s.db.View(func(tx *bolt.Tx) error {
				return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
					stats := b.Stats()
					used += stats.BranchAlloc + stats.LeafAlloc
					return nil
				})
			})
			t.Logf("%d points, %d bytes per autoscaler", len(got.Time), used/autoscalers)
			if used/autoscalers > 110_000 {
				t.Errorf("an autoscaler uses %d bytes, want at most 110 kB", used/autoscalers)
			}
		})
	}
}

// TestValues checks that values survive changes to the metrics, flushes and joins of hours.
func TestValues(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(3, 4))
	sets := [][]string{nil, {"cpu"}, {"cpu", "queue"}, {"queue"}}
	var added []Point
	at := begin.Add(50 * time.Minute)
	for i := range 300 {
		at = at.Add(time.Duration(50+random.IntN(10)) * time.Second)
		p := Point{Time: at, Replicas: random.Int32N(200000), Desired: random.Int32N(5), Min: 1, Max: random.Int32()}
		if random.IntN(5) == 0 {
			p.Replicas, p.Desired = Unknown, Unknown
		}
		for range sets[i/9%len(sets)] {
			p.Values = append(p.Values, float64(random.Int32()), math.Exp(200*random.NormFloat64()))
		}
		if n := len(p.Values); n > 0 && random.IntN(4) == 0 {
			p.Values[random.IntN(n)] = []float64{math.NaN(), 0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64}[random.IntN(5)]
		}
		added = append(added, p)
		s.Add(&Subject{"web", sets[i/9%len(sets)]}, &p)
		s.Add(&Subject{Name: "web2"}, &Point{Time: at, Replicas: 7}) // the other name is a prefix of this name
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
	got, err := s.Read("web", added[10].Time, added[290].Time)
	if err != nil || len(got.Time) != 281 {
		t.Fatalf("%d points, %v, want 281", len(got.Time), err)
	}
	for i, p := range added[10:291] {
		metrics := sets[(i+10)/9%len(sets)]
		count := func(column []float64, want int32) {
			t.Helper()
			if want == Unknown && !math.IsNaN(column[i]) || want != Unknown && column[i] != float64(want) {
				t.Fatalf("point %d = %v, want %d", i, column[i], want)
			}
		}
		count(got.Replicas, p.Replicas)
		count(got.Desired, p.Desired)
		count(got.Min, p.Min)
		count(got.Max, p.Max)
		for _, m := range got.Metrics {
			at := slices.Index(metrics, m.Name)
			if at < 0 {
				if !math.IsNaN(m.Values[i]) || !math.IsNaN(m.Proposals[i]) {
					t.Fatalf("point %d contains a value of the metric %q, want none", i, m.Name)
				}
				continue
			}
			want := p.Values[2*at : 2*at+2]
			same := func(got, want, slack float64) bool {
				return math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= math.Abs(want)*slack
			}
			if !same(m.Proposals[i], want[0], 0) || !same(m.Values[i], want[1], 1.0/8192) && math.Abs(want[1]) > 1e-300 {
				t.Fatalf("point %d of %q: proposal = %v, value = %v, want %v", i, m.Name, m.Proposals[i], m.Values[i], want)
			}
		}
	}
	if unknown, err := s.Read("we", begin, at); err != nil || len(unknown.Time) > 0 {
		t.Errorf("points of an unknown autoscaler = %d, %v", len(unknown.Time), err)
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
		p.Time, p.Values[1] = at, random.NormFloat64()
		s.Add(&subjects[n], p)
		if n++; n == autoscalers {
			n, at = 0, at.Add(15*time.Second)
			if at.Unix()%60 == 0 {
				s.Flush(at)
			}
		}
	}
}
