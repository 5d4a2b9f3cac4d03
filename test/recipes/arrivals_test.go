package recipes

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/soak"
)

// example returns the first example of a language in a section.
func (k *kitchen) example(heading, language string) string {
	k.t.Helper()
	match := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)```\n").FindStringSubmatch(guide.Section(k.t, recipes, heading))
	if match == nil {
		k.t.Fatalf("the section %q has no example in %s", heading, language)
	}
	return strings.NewReplacer(k.replace...).Replace(match[1])
}

// steadiness describes the behavior of a pool under a steady load.
type steadiness struct{ changes, least, most, longest int }

// TestArrivalRate measures the same load with and without the metric of the arrival rate. The short
// form runs five times faster than the recipe: jobs, arrivals and all periods. The long form runs at
// the speed of the recipe, and measures the numbers in docs/recipes.md.
func TestArrivalRate(t *testing.T) {
	t.Parallel()
	var results [2]steadiness
	t.Run("both", func(t *testing.T) { // returns when its parallel subtests have ended
		for i, rate := range []bool{false, true} {
			t.Run(fmt.Sprintf("arrival rate %t", rate), func(t *testing.T) {
				t.Parallel()
				results[i] = measure(t, rate)
			})
		}
	})
	without, with := results[0], results[1]
	t.Logf("length only: %+v; with the arrival rate: %+v", without, with)
	if without.changes < 2 || with.changes*2 > without.changes || with.longest > without.longest {
		t.Errorf("the arrival rate does not prevent oscillation")
	}
}

func measure(t *testing.T, rate bool) (s steadiness) {
	const redis, recipe = "Workers for a Redis queue", "A queue that does not oscillate"
	k := newKitchen(t, "redis-server", "prometheus-redis-exporter", "/usr/bin/python3")
	port := k.port("6379", "REDIS_PORT")
	k.port("9121", "EXPORTER_PORT")
	speed := soak.Rounds(5, 1)
	if speed > 1 {
		k.replace = append(k.replace, "sleep(0.5)", "sleep(0.1)", `"1.6"`, `"8"`, "[1m]", "[12s]", `window = "1m"`, `window = "12s"`, "scrape = [{ ", "scrape = [{ interval = \"1s\", ")
	}
	k.write("/etc/hpad/hpad.toml", k.daemon(15*time.Second/time.Duration(speed)))
	k.write("/etc/default/prometheus-redis-exporter", k.example(recipe, "sh"))
	k.write("/usr/local/bin/queue-worker", k.example(redis, "python"))
	if err := os.Chmod(k.dir+"/usr/local/bin/queue-worker", 0o700); err != nil {
		t.Fatal(err)
	}
	text := k.example(redis, "toml")
	if rate {
		text += k.example(recipe, "toml")
	}
	k.write("/etc/hpad/conf.d/queue.toml", text)
	k.systemctl("restart", "prometheus-redis-exporter")
	k.systemctl("start", "hpad")
	submit(t, port, time.Second/time.Duration(6*speed))

	client := api.NewClient(k.dir + "/sock")
	last := -1
	warm := time.Now().Add(3 * time.Minute / time.Duration(speed))
	end := warm.Add(soak.Rounds[time.Duration](5, 10) * time.Minute / time.Duration(speed))
	for tick := time.NewTicker(time.Second / time.Duration(speed)); time.Now().Before(end); <-tick.C {
		if time.Now().Before(warm) {
			continue
		}
		view, err := api.Get[api.Autoscaler](t.Context(), client, api.Path("autoscalers", "queue"), nil)
		if err != nil {
			t.Fatal(err)
		}
		output, err := exec.CommandContext(t.Context(), "redis-cli", "-p", port, "llen", "jobs").Output()
		if err != nil {
			t.Fatal(err)
		}
		length, _ := strconv.Atoi(strings.TrimSpace(string(output)))
		count := int(view.Status.CurrentReplicas)
		if last < 0 {
			s.least, s.most = count, count
		} else if count != last {
			s.changes++
		}
		s.least, s.most, s.longest, last = min(s.least, count), max(s.most, count), max(s.longest, length), count
	}
	return s
}

// submit adds jobs to the queue until the test ends.
func submit(t *testing.T, port string, interval time.Duration) {
	t.Helper()
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	go func() { _, _ = io.Copy(io.Discard, connection) }()
	go func() {
		for tick := time.NewTicker(interval); err == nil; <-tick.C {
			_, err = io.WriteString(connection, "MULTI\r\nRPUSH jobs job\r\nINCR submitted\r\nEXEC\r\n")
		}
	}()
}
