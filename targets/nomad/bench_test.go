package nomad

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// manyJobs is how many jobs the benchmarks read, of two allocations each, none of
// which changes.
const manyJobs = 10_000

// newPrepared returns the address of an imitation of that many jobs, which ask for
// autoscalers, and their names. Its responses are made beforehand.
func newPrepared(b *testing.B) (address string, refs []targets.Ref) {
	b.Helper()
	i := newImitation(b)
	refs = make([]targets.Ref, manyJobs)
	for n := range refs {
		id := fmt.Sprintf("job-%05d", n)
		i.add(id, 2).meta = map[string]string{targets.EnableLabel: "true", "hpad.max": "9"}
		refs[n] = ref(id + "/app")
	}
	answers := map[string][]byte{}
	address = newHandler(b, func(w http.ResponseWriter, r *http.Request) {
		if body, ok := answers[r.URL.Path]; ok {
			_, _ = w.Write(body)
			return
		}
		i.ServeHTTP(w, r)
	})
	for _, path := range []string{"/v1/jobs", "/v1/allocations", "/v1/deployments"} {
		recorder := httptest.NewRecorder()
		i.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		answers[path] = recorder.Body.Bytes()
	}
	return address, refs
}

// BenchmarkNomadDiscover finds what asks for autoscalers, and reports the cpu time
// of a target.
func BenchmarkNomadDiscover(b *testing.B) {
	address, _ := newPrepared(b)
	c := testConfig(b, address)
	c.Discover = true
	f := openFleet(b, c, nil)
	if _, err := f.Discover(b.Context()); err != nil {
		b.Fatal(err)
	}
	before := cpuNanoseconds(b)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := f.Discover(b.Context()); err != nil || len(found) != manyJobs {
			b.Fatalf("Discover() = %d targets, %v", len(found), err)
		}
	}
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/manyJobs, "cpu-ns/target")
}

// BenchmarkNomadSnapshot reads all of them, and reports the cpu time of a target.
func BenchmarkNomadSnapshot(b *testing.B) {
	address, refs := newPrepared(b)
	f := openFleet(b, testConfig(b, address), &targettest.Store{})
	if _, err := f.Snapshot(b.Context(), refs); err != nil {
		b.Fatal(err)
	}
	before := cpuNanoseconds(b)
	b.ReportAllocs()
	for b.Loop() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil || readings[refs[0]].StatusReplicas != 2 {
			b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
		}
	}
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/manyJobs, "cpu-ns/target")
}

// cpuNanoseconds returns the cpu time of this process, the imitation's included.
func cpuNanoseconds(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
