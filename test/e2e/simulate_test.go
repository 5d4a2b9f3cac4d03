package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/soak"
)

// jobsVariable makes the test binary run as a worker of a queue. Its value is the URL of the queue.
const jobsVariable = "E2E_JOBS"

const (
	// jobTime is the time that a worker needs for one job.
	jobTime = 250 * time.Millisecond
	// warmUp is the time from the start of a worker until it is ready and takes jobs.
	warmUp = 1500 * time.Millisecond
)

// takeJobs is a worker: it becomes ready after warmUp, and then takes jobs until SIGTERM.
func takeJobs(queue string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("HPAD_PORT"))
	if err != nil {
		return err
	}
	time.Sleep(warmUp)
	go func() {
		next := time.Now()
		for {
			response, err := http.Post(queue+"/next", "", nil)
			if err == nil {
				response.Body.Close()
			}
			if err != nil || response.StatusCode != http.StatusOK {
				time.Sleep(20 * time.Millisecond)
				next = time.Now()
				continue
			}
			next = next.Add(jobTime) // the rate is the same on a busy host
			time.Sleep(time.Until(next))
		}
	}()
	return http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// jobQueues counts the waiting jobs of queues with the same arrivals.
type jobQueues struct {
	mu      sync.Mutex
	waiting map[string]float64
}

func (q *jobQueues) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name, call := path.Split(strings.TrimPrefix(r.URL.Path, "/"))
	switch {
	case call == "length":
		fmt.Fprintf(w, "%d", int(q.waiting[name]))
	case q.waiting[name] >= 1:
		q.waiting[name]--
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// arrive adds jobs to all queues for a time: a wave from 4 to 40 jobs a second.
func (q *jobQueues) arrive(length, period time.Duration) {
	begin := time.Now()
	last := begin
	for tick := range time.Tick(20 * time.Millisecond) {
		if tick.Sub(begin) > length {
			return
		}
		rate := 22 - 18*math.Cos(2*math.Pi*float64(tick.Sub(begin))/float64(period))
		q.mu.Lock()
		for name := range q.waiting {
			q.waiting[name] += rate * tick.Sub(last).Seconds()
		}
		q.mu.Unlock()
		last = tick
	}
}

// TestSimulatedQueue runs the same load with two policies. From the recording of the first one, hpad
// predicts the second one. Instance-hours and the share of time with a shortage differ by at most 10 %
// from the recording of the second one.
func TestSimulatedQueue(t *testing.T) {
	t.Parallel()
	const instances = 16
	queues := &jobQueues{waiting: map[string]float64{"a/": 0, "b/": 0}}
	server := httptest.NewServer(queues)
	defer server.Close()
	first := ports.Block(t, 2*instances)
	var text strings.Builder
	text.WriteString("[fleets.local]\nkind = \"process\"\n")
	targets, maxima := map[string]int{"a": 20, "b": 22}, map[string]int{"a": instances, "b": 6}
	for i, name := range []string{"a", "b"} {
		fmt.Fprintf(&text, `
[fleets.local.services.%[1]s]
command   = [%[2]q]
ports     = "%[3]d-%[4]d"
env       = { %[5]s = "%[6]s/%[1]s" }
readiness = { http = "/", interval = "200ms" }
[sources.%[1]s]
kind   = "http"
url    = "%[6]s/%[1]s/length"
format = "number"
[autoscalers.%[1]s]
target       = { fleet = "local", service = %[1]q }
min_replicas = 2
max_replicas = %[7]d
metrics      = [{ type = "External", name = "queue", source = %[1]q, average_value = "%[8]d" }]
[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "5s"
`, name, os.Args[0], first+i*instances, first+(i+1)*instances-1, jobsVariable, server.URL, maxima[name], targets[name])
	}
	hpad := program.Prepare(t, program.Options{Config: text.String(), Daemon: "listen = \"\"\nsync_period = \"1s\"\n"})
	hpad.Start()
	length := soak.Rounds(90*time.Second, 20*time.Minute)
	begin := time.Now()
	queues.arrive(length, soak.Rounds(time.Minute, 5*time.Minute))
	period := []string{"--since", begin.Add(-time.Second).Format(time.RFC3339), "--until", begin.Add(length).Format(time.RFC3339), "-o", "json"}
	rate := "queue=queue:" + fmt.Sprint(float64(time.Second)/float64(jobTime))
	simulated := func(name, other string) simulate.Result {
		var result simulate.Result
		text := hpad.Says(append([]string{"simulate", name, "--assume", rate, "--set", fmt.Sprintf("metrics[0].average_value=%d,max_replicas=%d", targets[other], maxima[other])}, period...)...)
		if err := json.Unmarshal([]byte(text), &result); err != nil {
			t.Fatal(err)
		}
		return result
	}
	a, b := simulated("a", "b"), simulated("b", "a")
	predicted, real := a.Rows[1].Score, b.Rows[0].Score
	t.Logf("A %+v, start-up %v", a.Rows[0].Score, a.Startup)
	t.Logf("B predicted %+v", predicted)
	t.Logf("B recorded  %+v, start-up %v", real, b.Startup)
	if differs(predicted.InstanceHours, real.InstanceHours) || differs(float64(predicted.Shortage), float64(real.Shortage)) {
		t.Errorf("the prediction differs by more than 10 %%")
	}
	if real.Shortage < 0.2 || a.Rows[0].Shortage > 0.8*real.Shortage {
		t.Errorf("the policies do not differ enough: %v and %v", a.Rows[0].Shortage, real.Shortage)
	}
}

// differs reports whether two numbers differ by more than 10 %.
func differs(a, b float64) bool { return math.Abs(a-b) > 0.1*max(a, b) }
