package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/docker"
	swarmfleet "github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/docker/dockertest"
)

// The benchmarks run 200 containers. Each container and its shim need 15 threads, and some hosts
// permit only 4,900.
const (
	benchServices = 20
	benchReplicas = 10
	benchCount    = benchServices * benchReplicas
)

// BenchmarkCompose measures a round of the fleet and reading the stats of all containers, on each
// engine version. It reports the elapsed time, the calls, and the CPU time of hpad and dockerd.
func BenchmarkCompose(b *testing.B) {
	for _, version := range both {
		b.Run(version.String(), func(b *testing.B) {
			e := dockertest.Start(b, dockertest.Options{Version: version})
			e.ImportWorker(b, dockertest.Worker, "1")
			refs := createContainers(b, e)
			b.Run("round", func(b *testing.B) { benchRound(b, e, refs) })
			b.Run("stats", func(b *testing.B) { benchStats(b, e, version) })
		})
	}
}

// createContainers creates benchCount containers with Compose's labels.
func createContainers(b *testing.B, e *dockertest.Engine) []targets.Ref {
	b.Helper()
	var refs []targets.Ref
	var group errgroup.Group
	group.SetLimit(8)
	for s := range benchServices {
		service := fmt.Sprintf("svc-%02d", s)
		refs = append(refs, targets.Ref{Fleet: "shop", Name: "crowd/" + service})
		for n := 1; n <= benchReplicas; n++ {
			group.Go(func() error {
				config := &container.Config{Image: dockertest.Worker, Env: []string{"GOMAXPROCS=1"}, Labels: map[string]string{
					"com.docker.compose.project": "crowd", "com.docker.compose.service": service,
					"com.docker.compose.container-number": strconv.Itoa(n), "com.docker.compose.oneoff": "False",
					"com.docker.compose.config-hash": strings.Repeat("0", 64), "com.docker.compose.version": "2.40.3",
					"com.docker.compose.project.working_dir": "/srv/crowd", "com.docker.compose.project.config_files": "/srv/crowd/compose.yaml",
				}}
				host := &container.HostConfig{NetworkMode: "none", Resources: container.Resources{NanoCPUs: 500_000_000, Memory: 64 << 20}}
				created, err := e.Client.ContainerCreate(b.Context(), config, host, nil, nil, fmt.Sprintf("crowd-%s-%d", service, n))
				if err != nil {
					return err
				}
				return e.Client.ContainerStart(b.Context(), created.ID, container.StartOptions{})
			})
		}
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return refs
}

func benchFleet(b *testing.B, host string) *compose.Fleet {
	b.Helper()
	c := &compose.Config{Config: docker.Config{Host: host, Timeout: time.Minute, ResourceInterval: time.Minute}}
	c.SetDefaults()
	f, err := compose.New("shop", c, targets.Env{Store: &targettest.Store{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return f
}

// measured reports the CPU time of this process and dockerd per 1,000 instances.
func measured(b *testing.B, e *dockertest.Engine, operation func()) {
	b.Helper()
	before := e.Busy(b)
	targettest.Rounds(b, benchCount, operation)
	b.ReportMetric(float64((e.Busy(b)-before).Microseconds())/float64(b.N)/benchCount, "dockerd-cpu-ms/1000")
}

func benchRound(b *testing.B, e *dockertest.Engine, refs []targets.Ref) {
	round := func(f *compose.Fleet) {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil {
			b.Fatal(err)
		}
		for r, reading := range readings {
			if reading.Err != nil || len(reading.Instances) != benchReplicas || reading.StatusReplicas != benchReplicas {
				b.Fatalf("%s: %d instances, %v", r, len(reading.Instances), reading.Err)
			}
		}
	}
	var calls atomic.Int64
	g := newGate(b, e)
	g.before = func(*http.Request) { calls.Add(1) }
	counted := benchFleet(b, g.host())
	round(counted)
	first := calls.Swap(0)
	round(counted)
	f := benchFleet(b, e.Host())
	round(f)
	measured(b, e, func() { round(f) })
	b.ReportMetric(float64(first), "first-calls")
	b.ReportMetric(float64(calls.Load()), "calls/op")
}

func benchStats(b *testing.B, e *dockertest.Engine, version dockertest.Version) {
	found, err := e.Client.ContainerList(b.Context(), container.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	// hpad's sampler uses the same concurrency.
	concurrency := 64
	if version == dockertest.Packaged {
		concurrency = 512
	}
	c := &docker.Config{Host: e.Host(), Timeout: time.Minute}
	c.SetDefaults()
	engine, err := docker.Connect(c, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	measured(b, e, func() {
		var group errgroup.Group
		group.SetLimit(concurrency)
		for _, summary := range found {
			group.Go(func() error {
				return engine.Read(b.Context(), func(ctx context.Context, c *client.Client) error {
					response, err := c.ContainerStatsOneShot(ctx, summary.ID)
					if err != nil {
						return err
					}
					defer func() { _ = response.Body.Close() }()
					var stats container.StatsResponse
					if err := json.NewDecoder(response.Body).Decode(&stats); err != nil {
						return err
					}
					if stats.CPUStats.CPUUsage.TotalUsage == 0 {
						return fmt.Errorf("container %s has no stats", summary.ID)
					}
					return nil
				})
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	})
	b.ReportMetric(float64(len(found)), "calls/op")
}

// BenchmarkSwarm measures a round that reads the same number of tasks of a single-node swarm.
func BenchmarkSwarm(b *testing.B) {
	for _, version := range both {
		b.Run(version.String(), func(b *testing.B) {
			c := newCluster(b, dockertest.Options{Version: version})
			var refs []targets.Ref
			for s := range benchServices {
				name := fmt.Sprintf("svc-%02d", s)
				refs = append(refs, targets.Ref{Fleet: "swarm", Name: name})
				c.create(b, name, benchReplicas, "--network", "host", "--env", "GOMAXPROCS=1", "--env", "WORKER_PORT=0", "--limit-cpu", "0.5", "--limit-memory", "64M")
			}
			for _, r := range refs {
				c.awaitRunning(b, r.Name, benchReplicas)
			}
			config := &swarmfleet.Config{Config: docker.Config{Host: c.Host(), Timeout: time.Minute, ResourceInterval: time.Minute}}
			config.SetDefaults()
			f, err := swarmfleet.New("swarm", config, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = f.Close() })
			measured(b, c.Engine, func() {
				readings, err := f.Snapshot(b.Context(), refs)
				if err != nil || len(readings[refs[0]].Instances) != benchReplicas {
					b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
				}
			})
		})
	}
}
