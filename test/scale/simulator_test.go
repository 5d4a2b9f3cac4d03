package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// realJobs is the number of jobs on the real agent. They have 1, 2 and 20 allocations.
const realJobs = 3

// jobFile is a job file in HCL for one of the simulator's jobs.
const jobFile = `
job %[1]q {
  datacenters = ["*"]
  meta {
    team = "checkout"
  }
  group "app" {
    count = %[2]d
    network {
      port "http" {}
    }
    scaling {
      enabled = true
      min     = 1
      max     = 20
      policy {
        evaluation_interval = "15s"
        cooldown            = "1s"
        check "load" {
          source = "prometheus"
          query  = "sum(shop_load)"
          strategy "pass-through" {}
        }
      }
    }
    update {
      min_healthy_time = "1s"
    }
    service {
      name     = "shop"
      provider = "nomad"
      port     = "http"
    }
    task "server" {
      driver = "mock_driver"
      config {
        run_for = "600s"
      }
      template {
        data        = "x"
        destination = "local/x"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}`

// pair contains the addresses of a real server and its simulation.
type pair struct{ real, simulated string }

// both calls a function with both addresses.
func both[T any](p pair, of func(address string) T) (real, simulated T) {
	return of(p.real), of(p.simulated)
}

// startCluster runs a real agent with a few jobs and a simulation of the same jobs.
func startCluster(t *testing.T) pair {
	t.Helper()
	agent := nomadtest.Start(t, nomadtest.Options{})
	s, err := startEnvironment(t.Context(), row{n: realJobs, period: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	p := pair{real: agent.URL, simulated: s.nomad}
	for number := range realJobs {
		id := sim.JobID(number)
		agent.RunFile(t, fmt.Sprintf(jobFile, id, len(list(t, s.nomad, "/v1/job/"+id+"/allocations"))))
	}
	wait.For(t, 2*time.Minute, "settled jobs", func() (string, bool) {
		deployments := list(t, agent.URL, "/v1/deployments")
		over := 0
		for _, d := range deployments {
			if d["Status"] == "successful" {
				over++
			}
		}
		return fmt.Sprintf("%d of %d deployments have ended", over, len(deployments)), over == realJobs
	})
	return p
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request and decompresses the response.
func call(t *testing.T, method, address, body string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost && strings.HasPrefix(body, "query") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var reader io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		if reader, err = gzip.NewReader(response.Body); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return reply{status: response.StatusCode, header: response.Header, body: text}
}

func get(t *testing.T, address, path string) reply {
	t.Helper()
	a := call(t, http.MethodGet, address+path, "")
	if a.status != http.StatusOK {
		t.Fatalf("%s%s = %d %s", address, path, a.status, a.body)
	}
	return a
}

func list(t *testing.T, address, path string) []map[string]any {
	t.Helper()
	var found []map[string]any
	if err := json.Unmarshal(get(t, address, path).body, &found); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return found
}

// opaque lists fields whose keys depend on the user or the host.
var opaque = []string{"Details", "Attributes", "Drivers", "Config"}

// shape collects the paths of JSON fields with their types.
func shape(path string, value any, into map[string]string) {
	add := func(kind string) {
		if into[path] == "" || into[path] == "null" {
			into[path] = kind
		}
	}
	switch value := value.(type) {
	case nil:
		add("null")
	case map[string]any:
		add("object")
		if slices.Contains(opaque, path[strings.LastIndexByte(path, '.')+1:]) {
			return
		}
		for name, inner := range value {
			shape(path+"."+name, inner, into)
		}
	case []any:
		add("array")
		for _, inner := range value {
			shape(path+"[]", inner, into)
		}
	default:
		add(fmt.Sprintf("%T", value))
	}
}

func shapeOf(t *testing.T, body []byte) map[string]string {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	fields := map[string]string{}
	shape("", value, fields)
	return fields
}

// headers returns the relevant headers, with numbers removed.
func headers(a reply) map[string]string {
	found := map[string]string{}
	for name := range a.header {
		switch {
		case strings.HasSuffix(name, "Index"):
			found[name] = "a number"
		case strings.HasPrefix(name, "X-Nomad"), name == "Content-Type", name == "Content-Encoding", name == "Vary":
			found[name] = a.header.Get(name)
		}
	}
	return found
}

// TestNomadResponses compares the simulator's responses with those of a real agent.
func TestNomadResponses(t *testing.T) {
	soak.Complete(t)
	p := startCluster(t)
	t.Run("answers", p.testResponses)
	t.Run("filters", p.testFilters)
}

// testResponses compares fields, types, sizes and headers.
func (p pair) testResponses(t *testing.T) {
	for path, most := range map[string]float64{
		"/v1/jobs": 1.1, "/v1/jobs?meta=true": 1.1, "/v1/deployments": 1.1,
		"/v1/allocations": 1.1, "/v1/allocations?resources=true": 1.1, "/v1/job/shop-000002/allocations": 1.1, "/v1/job/shop-000002/allocations?all=true": 1.1,
		"/v1/allocations?task_states=false": 1.1, "/v1/allocations?resources=true&task_states=false": 1.1,
		"/v1/job/shop-000001": 1.1, "/v1/job/shop-000001/scale": 1.1, "/v1/scaling/policies": 1.1,
		"/v1/status/leader": 1.3, "/v1/regions": 1.3,
	} {
		real, simulated := both(p, func(address string) reply { return get(t, address, path) })
		if diff := cmp.Diff(shapeOf(t, real.body), shapeOf(t, simulated.body)); diff != "" {
			t.Errorf("fields of %s differ (-real +simulated):\n%s", path, diff)
		}
		if diff := cmp.Diff(headers(real), headers(simulated)); diff != "" {
			t.Errorf("headers of %s differ (-real +simulated):\n%s", path, diff)
		}
		if ratio := float64(len(simulated.body)) / float64(len(real.body)); ratio > most || ratio < 2-most {
			t.Errorf("%s: got %d bytes, want about %d", path, len(simulated.body), len(real.body))
		}
	}
	allocs := get(t, p.simulated, "/v1/allocations?resources=true")
	if size := len(allocs.body) / len(list(t, p.simulated, "/v1/allocations")); size < 2600 || size > 3000 {
		t.Errorf("got %d bytes per allocation, want about 2,800", size)
	}
	policy := func(address string) map[string]string {
		id := list(t, address, "/v1/scaling/policies")[0]["ID"].(string)
		return shapeOf(t, get(t, address, "/v1/scaling/policy/"+id).body)
	}
	if real, simulated := both(p, policy); !maps.Equal(real, simulated) {
		t.Errorf("fields of a scaling policy differ (-real +simulated):\n%s", cmp.Diff(real, simulated))
	}
}

// testFilters compares the results of filters, including filters that hpad does not use.
func (p pair) testFilters(t *testing.T) {
	for path, filters := range map[string][]string{
		"/v1/jobs": {
			`ID == "shop-000001"`, `ID == "shop-000001" or ID == "shop-000002"`, `ID != "shop-000001"`, `ParentID == ""`, `ParentID != ""`,
			`ID matches "00[12]$"`, `not ID == "shop-000001"`, `Status == "running" and Type == "service"`, `JobModifyIndex == 0`, `Stop == false`,
		},
		"/v1/allocations": {
			`JobID == "shop-000001"`, `ClientStatus != "complete" and ClientStatus != "lost" and (ClientStatus != "failed" or DesiredStatus == "run" and NextAllocation == "")`,
			`(ClientStatus != "complete") and (JobID == "shop-000001" or JobID == "shop-000000")`, `ClientStatus == "pending"`, `JobID == "shop-000002" or JobID == "nothing" and ClientStatus == "lost"`,
			"(JobID matches `^(?:shop-000001|shop\\x{2d}000002)$`) and (ClientStatus != \"complete\")", `TaskGroup == "app" and DesiredStatus == "run"`, `JobID not matches "0$"`,
		},
		"/v1/deployments": {
			`Status != "successful" and Status != "failed" and Status != "cancelled"`, `(Status == "successful") and (JobID == "shop-000000" or JobID == "shop-000002")`,
		},
	} {
		for _, filter := range filters {
			names := func(address string) []string {
				names := []string{}
				for _, one := range list(t, address, path+"?filter="+url.QueryEscape(filter)) {
					name, named := one["Name"].(string)
					if !named {
						name = one["JobID"].(string)
					}
					names = append(names, name)
				}
				slices.Sort(names)
				return names
			}
			if real, simulated := both(p, names); !slices.Equal(real, simulated) {
				t.Errorf("%s with %s: got %v, want %v", path, filter, simulated, real)
			}
		}
	}
	pages := func(address string) (sizes []int) {
		for _, path := range []string{"/v1/jobs?per_page=2", "/v1/allocations?per_page=5&filter=" + url.QueryEscape(`JobID != "shop-000001"`)} {
			for token := "first"; token != ""; {
				next := ""
				if token != "first" {
					next = "&next_token=" + url.QueryEscape(token)
				}
				a := get(t, address, path+next)
				var page []map[string]any
				if err := json.Unmarshal(a.body, &page); err != nil {
					t.Fatal(err)
				}
				sizes, token = append(sizes, len(page)), a.header.Get("X-Nomad-NextToken")
			}
		}
		return sizes
	}
	if real, simulated := both(p, pages); !slices.Equal(real, simulated) {
		t.Errorf("got pages with %d elements, want %d", simulated, real)
	}
	for _, path := range []string{"/v1/jobs?prefix=shop-00000", "/v1/jobs?prefix=x", "/v1/allocations?per_page=2", "/v1/jobs?namespace=*"} {
		if real, simulated := both(p, func(address string) int { return len(list(t, address, path)) }); real != simulated {
			t.Errorf("%s: got %d, want %d", path, simulated, real)
		}
	}
}

// TestPrometheusResponses compares the simulator's responses with those of a real server.
func TestPrometheusResponses(t *testing.T) {
	s, err := startEnvironment(t.Context(), row{n: 50, period: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	server := promtest.Start(t, "")
	at := time.Now().Truncate(time.Second)
	var samples strings.Builder
	samples.WriteString("# TYPE shop_load gauge\n")
	for number := range 50 {
		for _, age := range []time.Duration{2 * time.Minute, time.Minute, 0} {
			fmt.Fprintf(&samples, "shop_load{service=%q} %d %d\n", sim.JobID(number), s.Load(number), at.Add(-age).Unix())
		}
	}
	server.Load(samples.String() + "# EOF\n")
	p := pair{real: server.URL, simulated: s.prometheus}
	ranged := fmt.Sprintf("&start=%d&end=%d&step=1", at.Add(-time.Minute).Unix(), at.Unix())
	instant := fmt.Sprintf("&time=%d.5", at.Unix())
	for _, one := range []struct{ path, form string }{
		{"/api/v1/query", "query=" + url.QueryEscape(sim.SharedQuery) + instant},
		{"/api/v1/query", "query=" + url.QueryEscape(sim.Load(7)) + instant},
		{"/api/v1/query", "query=" + url.QueryEscape(sim.Load(7)+" / 10") + instant},
		{"/api/v1/query", "query=" + url.QueryEscape(sim.Load(7)) + instant + "&lookback_delta=5m"},
		{"/api/v1/query", "query=" + url.QueryEscape(sim.Load(70)) + instant},
		{"/api/v1/query_range", "query=" + url.QueryEscape(sim.Load(7)+" / 10") + ranged},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			send := func(address string) reply {
				if method == http.MethodGet {
					return call(t, method, address+one.path+"?"+one.form, "")
				}
				return call(t, method, address+one.path, one.form)
			}
			real, simulated := both(p, send)
			if diff := cmp.Diff(decoded(t, real), decoded(t, simulated)); diff != "" {
				t.Errorf("%s %s %s (-real +simulated):\n%s", method, one.path, one.form, diff)
			}
			if real.header.Get("Content-Encoding") != simulated.header.Get("Content-Encoding") || real.header.Get("Content-Type") != simulated.header.Get("Content-Type") {
				t.Errorf("%s: got headers %v, want %v", one.path, simulated.header, real.header)
			}
		}
	}
}

// decoded decodes a response and sorts its series.
func decoded(t *testing.T, a reply) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(a.body, &body); err != nil {
		t.Fatalf("decode: %v in %s", err, a.body)
	}
	if data, is := body["data"].(map[string]any); is {
		if series, is := data["result"].([]any); is {
			slices.SortFunc(series, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return body
}
