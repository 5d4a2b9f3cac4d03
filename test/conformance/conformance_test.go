package conformance

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/conformance/sim"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/soak"
)

var (
	version   = flag.String("kubernetes", "", "run only scenarios of this version of Kubernetes")
	seed      = flag.Uint64("seed", 0, "seed of the random scenarios; 0 chooses one")
	scenarios = flag.Int("scenarios", 0, "number of random scenarios; 0 is the number for CI")
	family    = flag.String("family", "", "run only scenarios of this family, see sim.Generate")
	file      = flag.String("file", "", "run the scenarios of this file instead")
	showLog   = flag.Bool("log", false, "print the log of hpad")
	showLines = flag.Bool("lines", false, "print all evaluations of both controllers")
)

// fixedSeed is the seed of the scenarios that run every time.
const fixedSeed = 1

// batch is the number of scenarios in one run of the upstream program.
const batch = 100

// TestConformance runs random scenarios. To repeat a failure, use the seed and the number that the
// test prints, or the file that contains the differing scenarios.
func TestConformance(t *testing.T) {
	if *file != "" {
		newRunner(t, "").mustAgree(read(t, *file))
		return
	}
	for _, v := range []struct {
		name       string
		kubernetes string // as in sim.Scenario
		// fixed and random are the numbers of scenarios for CI. "make test" runs a third of the fixed
		// scenarios.
		fixed, random int
	}{{"1.37", "", 200, 100}, {"1.38", "1.38", 70, 50}} {
		if *version != "" && *version != v.name {
			continue
		}
		if !soak.All() {
			v.fixed /= 3
		}
		t.Run(v.name, func(t *testing.T) {
			r := newRunner(t, v.kubernetes)
			from := *seed
			if from == 0 {
				t.Run("fixed", func(t *testing.T) { r.with(t).random(*family, fixedSeed, v.fixed) })
				from = rand.Uint64()>>40 + 2
			}
			n := *scenarios
			if n == 0 {
				n = soak.Rounds(v.random, 10_000)
			}
			t.Run("random", func(t *testing.T) { r.with(t).random(*family, from, n) })
		})
	}
}

// TestFailover runs fixed scenarios in which members of a cluster crash, leave and return. Run more
// with -family ha.
func TestFailover(t *testing.T) { runFixed(t, "ha", 99887766) }

// TestClockBack runs fixed scenarios in which the wall clock is stepped back. Run more with -family
// clockback.
func TestClockBack(t *testing.T) { runFixed(t, "clockback", 8080123) }

func runFixed(t *testing.T, family string, seed uint64) {
	if *file != "" {
		t.Skip("-file is set")
	}
	newRunner(t, "").random(family, seed, 20)
}

// TestKnown runs a minimal scenario for each known difference. docs/algorithm.md lists the
// differences. Move a scenario that no longer differs to testdata/fixed.jsonl.
func TestKnown(t *testing.T) {
	if *file != "" {
		t.Skip("-file is set")
	}
	r := newRunner(t, "")
	for _, s := range read(t, "testdata/known.jsonl") {
		differences, _ := r.compare([]*sim.Scenario{s})
		if len(differences) == 0 {
			t.Errorf("%s: both controllers agree", s.Name)
		}
	}
	if fixed := read(t, "testdata/fixed.jsonl"); len(fixed) > 0 {
		r.mustAgree(fixed)
	}
}

// runner runs scenarios with both controllers.
type runner struct {
	*testing.T
	// kubernetes is the version of the random scenarios.
	kubernetes string
	// url is the address of servePrometheus.
	url string
	dir string
	// converted maps autoscalers to tables in TOML, which replace those of the scenarios for hpad.
	converted map[string]string
}

func newRunner(t *testing.T, kubernetes string) *runner {
	upstream(t, kubernetes)
	addKinds()
	server := httptest.NewServer(http.HandlerFunc(servePrometheus))
	t.Cleanup(server.Close)
	return &runner{T: t, kubernetes: kubernetes, url: server.URL, dir: t.TempDir()}
}

// upstream returns the path of the upstream test program.
func upstream(t *testing.T, kubernetes string) string {
	t.Helper()
	const script = "../install/conformance.sh"
	output, err := exec.Command(script, "path", cmp.Or(kubernetes, "1.37")).Output()
	if err != nil {
		t.Fatalf("%s path: %v", script, err)
	}
	path := strings.TrimSpace(string(output))
	if _, err := os.Stat(path); err != nil {
		installed.Absent(t, fmt.Sprintf("%v: run test/install/conformance.sh", err))
	}
	return path
}

func (r *runner) with(t *testing.T) *runner {
	next := *r
	next.T = t
	return &next
}

func (r *runner) random(family string, seed uint64, n int) {
	r.Logf("%d scenarios of seed %d", n, seed)
	for from := 0; from < n; from += batch {
		var all []*sim.Scenario
		for i := from; i < min(n, from+batch); i++ {
			if s := sim.Generate(r.kubernetes, seed, i, family); fits(s) {
				all = append(all, s)
			}
		}
		r.mustAgree(all)
	}
}

// fits reports whether the usages of all instances fit 64-bit milli-units. The sum of several tasks near
// this limit does not. A query that returns it is a failed metric in hpad (R3), and wraps in upstream.
func fits(s *sim.Scenario) bool {
	for _, a := range s.Autoscalers {
		sums := map[string]float64{}
		for _, task := range a.Fleet.Tasks {
			for name, request := range task.Requests {
				sums[name] += float64(request)
			}
		}
		for _, m := range a.Spec.Metrics {
			if m.Query && m.Type == "Resource" && sums[m.Name] > math.MaxInt64/2 {
				return false
			}
		}
	}
	return true
}

// maxDifferences is the maximum number of differences that a failure prints.
const maxDifferences = 10

func (r *runner) mustAgree(all []*sim.Scenario) {
	r.Helper()
	differences, same := r.compare(all)
	if len(differences) == 0 {
		r.Logf("%d evaluations of %d scenarios agree", same, len(all))
		return
	}
	kept, err := keep(different(all, differences))
	if err != nil {
		r.Error(err)
	}
	for i, d := range differences {
		if i == maxDifferences {
			r.Errorf("and %d more", len(differences)-i)
			break
		}
		r.Errorf("%s", d.String())
	}
	r.Errorf("%d evaluations agree, %d autoscalers differ. Repeat with: go test ./test/conformance -run TestConformance -args -file %s",
		same, len(differences), kept)
}

// keep writes scenarios to a new file, because each batch can contain differences.
func keep(all []*sim.Scenario) (path string, err error) {
	f, err := os.CreateTemp("", "conformance-*.jsonl")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(f.Close(), write(f.Name(), all))
}

func different(all []*sim.Scenario, differences []sim.Difference) (found []*sim.Scenario) {
	names := map[string]bool{}
	for i := range differences {
		names[differences[i].Scenario] = true
	}
	for _, s := range all {
		if names[s.Name] {
			found = append(found, s)
		}
	}
	return found
}

// compare runs scenarios with both controllers. It returns the first difference of each autoscaler,
// and the number of matching evaluations.
func (r *runner) compare(all []*sim.Scenario) (differences []sim.Difference, same int) {
	r.Helper()
	return r.compareTo(all, all)
}

// compareTo is compare with other scenarios for upstream, in the same order and with the same names.
func (r *runner) compareTo(all, others []*sim.Scenario) (differences []sim.Difference, same int) {
	r.Helper()
	var ours []sim.Played
	var led []*sim.Scenario
	for i, s := range all {
		played, upstreams := play(r.T, clone(s), r.url, r.converted), clone(others[i])
		if s.Led {
			sim.Lead(upstreams, &played)
		}
		sim.Notice(upstreams, &played)
		ours, led = append(ours, played), append(led, upstreams)
	}
	theirs := map[string]*sim.Played{}
	for _, kubernetes := range []string{"", "1.38"} {
		own := slices.DeleteFunc(slices.Clone(led), func(s *sim.Scenario) bool { return s.Kubernetes != kubernetes })
		for _, played := range r.playUpstream(kubernetes, own) {
			theirs[played.Name] = played
		}
	}
	if len(theirs) != len(all) {
		r.Fatalf("upstream ran %d of %d scenarios", len(theirs), len(all))
	}
	for i, s := range all {
		d, n := sim.Compare(s, theirs[s.Name], &ours[i])
		differences, same = append(differences, d...), same+n
		if len(d) > 0 && theirs[s.Name].Error+ours[i].Error != "" {
			r.Logf("%s: upstream: %s, hpad: %s", s.Name, theirs[s.Name].Error, ours[i].Error)
		}
		if *showLines {
			r.Logf("%s, upstream:\n%shpad:\n%s", s.Name, lines(theirs[s.Name]), lines(&ours[i]))
		}
	}
	return differences, same
}

func clone(s *sim.Scenario) *sim.Scenario {
	text, _ := json.Marshal(s)
	next := new(sim.Scenario)
	_ = json.Unmarshal(text, next)
	return next
}

func lines(played *sim.Played) string {
	var b strings.Builder
	for i := range played.Lines {
		text, _ := json.Marshal(&played.Lines[i])
		fmt.Fprintf(&b, "  %s\n", text)
	}
	return b.String()
}

func (r *runner) playUpstream(kubernetes string, all []*sim.Scenario) (played []*sim.Played) {
	r.Helper()
	if len(all) == 0 {
		return nil
	}
	in, out := filepath.Join(r.dir, "in.jsonl"), filepath.Join(r.dir, "out.jsonl")
	if err := write(in, all); err != nil {
		r.Fatal(err)
	}
	command := exec.Command(upstream(r.T, kubernetes), "-test.run=^TestPlay$", "-test.timeout=0", "-in="+in, "-out="+out)
	if text, err := command.CombinedOutput(); err != nil {
		r.Fatalf("run upstream: %v\n%s", err, text[max(0, len(text)-4000):])
	}
	err := sim.Each(out, func(p *sim.Played) error { played = append(played, p); return nil })
	if err != nil {
		r.Fatal(err)
	}
	return played
}

func read(t *testing.T, path string) (all []*sim.Scenario) {
	t.Helper()
	err := sim.Each(path, func(s *sim.Scenario) error { all = append(all, s); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func write(path string, all []*sim.Scenario) error {
	w, err := sim.Create(path)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := w.Write(s); err != nil {
			return err
		}
	}
	return w.Close()
}
