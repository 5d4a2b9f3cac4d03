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

// BenchmarkNomadSnapshot reads 10,000 jobs of two allocations each, none of which
// changes, from an imitation whose answers are made beforehand, and reports the
// cpu time of a target.
func BenchmarkNomadSnapshot(b *testing.B) {
	const jobs = 10_000
	i := newImitation(b)
	refs := make([]targets.Ref, jobs)
	for n := range refs {
		id := fmt.Sprintf("job-%05d", n)
		i.add(id, 2)
		refs[n] = ref(id + "/app")
	}
	answers := map[string][]byte{}
	address := newHandler(b, func(w http.ResponseWriter, r *http.Request) {
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
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/jobs, "cpu-ns/target")
}

// cpuNanoseconds answers the cpu time of this process, the imitation's included.
func cpuNanoseconds(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
