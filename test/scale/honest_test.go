package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/wait"
)

// realJobs is how many jobs a real agent runs to compare the simulator's with: of 1,
// 2 and 20 allocations.
const realJobs = 3

// jobFile is a job as the simulator has them.
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

// pair is a real server and its simulation.
type pair struct{ real, simulated string }

// both calls a function for each of them, and returns what it returns.
func both[T any](p pair, of func(address string) T) (real, simulated T) {
	return of(p.real), of(p.simulated)
}

// startCluster runs a real agent with a few jobs beside a simulation of them.
func startCluster(t *testing.T) pair {
	t.Helper()
	agent := nomadtest.Start(t, nomadtest.Options{})
	s, err := surround(t.Context(), row{n: realJobs, period: 15 * time.Second})
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
		return fmt.Sprintf("%d of %d deployments are over", over, len(deployments)), over == realJobs
	})
	return p
}

// answer is what a server answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call calls a server, and reads what it answers, compressed if it is.
func call(t *testing.T, method, address, body string) answer {
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
	return answer{status: response.StatusCode, header: response.Header, body: text}
}

func get(t *testing.T, address, path string) answer {
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

// opaque fields hold whatever keys somebody chose, or a machine has.
var opaque = []string{"Details", "Attributes", "Drivers", "Config"}

// shape collects the fields of JSON by their paths, with the types of their values.
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

// headers are those of an answer that mean something, without numbers.
func headers(a answer) map[string]string {
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

// TestNomadAnswers compares the simulator's answers with a real agent's.
func TestNomadAnswers(t *testing.T) {
	p := startCluster(t)
	t.Run("answers", p.testAnswers)
	t.Run("subsets", p.testSubsets)
	t.Run("filters", p.testFilters)
	t.Run("refusals", p.testRefusals)
	t.Run("blocking", p.testBlocking)
	t.Run("scaling", p.testScaling)
}

// testAnswers compares fields, types, sizes and headers.
func (p pair) testAnswers(t *testing.T) {
	for path, most := range map[string]float64{
		"/v1/jobs": 1.1, "/v1/jobs?meta=true": 1.1, "/v1/deployments": 1.1,
		"/v1/allocations": 1.1, "/v1/allocations?resources=true": 1.1, "/v1/job/shop-000002/allocations": 1.1, "/v1/job/shop-000002/allocations?all=true": 1.1,
		"/v1/allocations?task_states=false": 1.1, "/v1/allocations?resources=true&task_states=false": 1.1,
		"/v1/job/shop-000001": 1.1, "/v1/job/shop-000001/scale": 1.1, "/v1/scaling/policies": 1.1,
		"/v1/status/leader": 1.3, "/v1/regions": 1.3,
	} {
		real, simulated := both(p, func(address string) answer { return get(t, address, path) })
		if diff := cmp.Diff(shapeOf(t, real.body), shapeOf(t, simulated.body)); diff != "" {
			t.Errorf("%s has other fields (-real +simulated):\n%s", path, diff)
		}
		if diff := cmp.Diff(headers(real), headers(simulated)); diff != "" {
			t.Errorf("%s has other headers (-real +simulated):\n%s", path, diff)
		}
		if ratio := float64(len(simulated.body)) / float64(len(real.body)); ratio > most || ratio < 2-most {
			t.Errorf("%s: the simulator's answer has %d bytes, the real one %d", path, len(simulated.body), len(real.body))
		}
	}
	allocs := get(t, p.simulated, "/v1/allocations?resources=true")
	if size := len(allocs.body) / len(list(t, p.simulated, "/v1/allocations")); size < 2600 || size > 3000 {
		t.Errorf("an allocation has %d bytes, want some 2,800", size)
	}
	policy := func(address string) map[string]string {
		id := list(t, address, "/v1/scaling/policies")[0]["ID"].(string)
		return shapeOf(t, get(t, address, "/v1/scaling/policy/"+id).body)
	}
	if real, simulated := both(p, policy); !maps.Equal(real, simulated) {
		t.Errorf("a scaling policy has other fields (-real +simulated):\n%s", cmp.Diff(real, simulated))
	}
}

// testSubsets compares what the simulator tells of machines, which is less than an
// agent tells, and the same.
func (p pair) testSubsets(t *testing.T) {
	node := func(address string) string {
		return "/v1/node/" + list(t, address, "/v1/nodes")[0]["ID"].(string)
	}
	realNode, simulatedNode := both(p, node)
	for realPath, simulatedPath := range map[string]string{
		"/v1/nodes": "/v1/nodes", "/v1/nodes?resources=true": "/v1/nodes?resources=true", realNode: simulatedNode, "/v1/agent/self": "/v1/agent/self",
	} {
		real, simulated := shapeOf(t, get(t, p.real, realPath).body), shapeOf(t, get(t, p.simulated, simulatedPath).body)
		for path, kind := range simulated {
			if real[path] != kind && real[path] != "null" && kind != "null" {
				t.Errorf("%s: %s is a %q, and in truth %q", simulatedPath, path, kind, real[path])
			}
		}
	}
}

// testFilters compares what filters let through, of those that hpad sends and of
// others that the simulator knows.
func (p pair) testFilters(t *testing.T) {
	for path, filters := range map[string][]string{
		"/v1/jobs": {
			`ID == "shop-000001"`, `ID == "shop-000001" or ID == "shop-000002"`, `ID != "shop-000001"`, `ParentID == ""`, `ParentID != ""`,
			`ID matches "00[12]$"`, `not ID == "shop-000001"`, `Status == "running" and Type == "service"`, `JobModifyIndex == 0`, `Stop == false`,
		},
		"/v1/allocations": {
			`JobID == "shop-000001"`, `ClientStatus != "complete" and ClientStatus != "lost" and (ClientStatus != "failed" or DesiredStatus == "run" and NextAllocation == "")`,
			`(ClientStatus != "complete") and (JobID == "shop-000001" or JobID == "shop-000000")`, `ClientStatus == "pending"`, `JobID == "shop-000002" or JobID == "nothing" and ClientStatus == "lost"`,
			`TaskGroup == "app" and DesiredStatus == "run"`, `JobID not matches "0$"`,
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
				t.Errorf("%s with %s has %v, and in truth %v", path, filter, simulated, real)
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
		t.Errorf("the pages of jobs and of allocations have %d elements, and in truth %d", simulated, real)
	}
	for _, path := range []string{"/v1/jobs?prefix=shop-00000", "/v1/jobs?prefix=x", "/v1/allocations?per_page=2", "/v1/jobs?namespace=*"} {
		if real, simulated := both(p, func(address string) int { return len(list(t, address, path)) }); real != simulated {
			t.Errorf("%s has %d, and in truth %d", path, simulated, real)
		}
	}
	found := func(address string) string {
		id := list(t, address, "/v1/allocations")[5]["ID"].(string)
		digits := list(t, address, "/v1/allocations?resources=true&prefix="+id[:2])
		here := slices.ContainsFunc(digits, func(a map[string]any) bool { return a["ID"] == id })
		others := slices.ContainsFunc(digits, func(a map[string]any) bool { return !strings.HasPrefix(a["ID"].(string), id[:2]) })
		whole := list(t, address, "/v1/allocations?prefix="+id)
		return fmt.Sprintf("it: %t, others: %t, the whole id: %d", here, others, len(whole))
	}
	if real, simulated := both(p, found); real != simulated {
		t.Errorf("by a prefix there is %s, and in truth %s", simulated, real)
	}
}

// testRefusals compares what is refused, and how.
func (p pair) testRefusals(t *testing.T) {
	for _, one := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/job/nothing", ""},
		{http.MethodGet, "/v1/job/nothing/scale", ""},
		{http.MethodGet, "/v1/job/nothing/allocations?all=true", ""},
		{http.MethodGet, "/v1/jobs?filter=" + url.QueryEscape(`ID = "x"`), ""},
		{http.MethodGet, "/v1/allocations?prefix=abc", ""},
		{http.MethodPut, "/v1/job/nothing/scale", `{"Count":2,"Target":{"Group":"app"}}`},
		{http.MethodPut, "/v1/job/shop-000001/scale", `{"Count":21,"Target":{"Group":"app"}}`},
		{http.MethodPut, "/v1/job/shop-000001/scale", `{"Count":0,"Target":{"Group":"app"}}`},
		{http.MethodPut, "/v1/job/shop-000001/scale", `{"Count":-1,"Target":{"Group":"app"}}`},
		{http.MethodPut, "/v1/job/shop-000001/scale", `{"Count":2,"Target":{"Group":"other"}}`},
		{http.MethodPut, "/v1/job/shop-000001/scale", `{"Count":3,"Target":{"Group":"app"},"JobModifyIndex":7}`},
	} {
		said := func(address string) string {
			a := call(t, one.method, address+one.path, one.body)
			// Indexes and positions differ.
			text := strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return -1
				}
				return r
			}, string(bytes.TrimSpace(a.body)))
			if a.status == http.StatusBadRequest && strings.HasPrefix(one.path, "/v1/jobs") {
				text, _, _ = strings.Cut(text, ":") // the parser's own words
			}
			return strconv.Itoa(a.status) + " " + text
		}
		if real, simulated := both(p, said); real != simulated {
			t.Errorf("%s %s %s: %s, and in truth %s", one.method, one.path, one.body, simulated, real)
		}
	}
}

// testBlocking compares how long calls wait for something newer than an index.
func (p pair) testBlocking(t *testing.T) {
	for _, path := range []string{"/v1/jobs", "/v1/allocations", "/v1/deployments", "/v1/job/shop-000001/scale", "/v1/scaling/policies"} {
		waits := func(address string) string {
			index := get(t, address, path).header.Get("X-Nomad-Index")
			begun := time.Now()
			a := get(t, address, path+"?wait=1s&index="+index)
			waited := time.Since(begun)
			before := get(t, address, path+"?wait=30s&index=1")
			return fmt.Sprintf("a second: %t, the same index: %t, at once: %t", waited > 900*time.Millisecond && waited < 5*time.Second,
				a.header.Get("X-Nomad-Index") == index, before.header.Get("X-Nomad-Index") == index)
		}
		if real, simulated := both(p, waits); real != simulated {
			t.Errorf("%s: %s, and in truth %s", path, simulated, real)
		}
	}
}

// testScaling compares what follows a change of a count: which indexes move, and what
// is told of allocations and deployments meanwhile.
func (p pair) testScaling(t *testing.T) {
	for _, count := range []int{1, 4} {
		follow := func(address string) map[string]bool { return followScaling(t, address, count) }
		if real, simulated := both(p, follow); !maps.Equal(real, simulated) {
			t.Errorf("to %d (-real +simulated):\n%s", count, cmp.Diff(real, simulated))
		}
	}
	events := func(address string) map[string]string {
		return shapeOf(t, get(t, address, "/v1/job/shop-000001/scale").body)
	}
	if real, simulated := both(p, events); !maps.Equal(real, simulated) {
		t.Errorf("scaling events have other fields (-real +simulated):\n%s", cmp.Diff(real, simulated))
	}
	shapes := func(address string) map[string]string {
		return shapeOf(t, get(t, address, "/v1/allocations?resources=true&filter="+url.QueryEscape(`JobID == "shop-000001"`)).body)
	}
	if real, simulated := both(p, shapes); !maps.Equal(real, simulated) {
		t.Errorf("allocations that ended or are new have other fields (-real +simulated):\n%s", cmp.Diff(real, simulated))
	}
}

// scaled is the job that is scaled.
const scaled = "shop-000001"

// followScaling scales a job and returns what was seen until its deployment is over.
func followScaling(t *testing.T, address string, count int) map[string]bool {
	t.Helper()
	before := readJob(t, address)
	woken := make(chan int, 1)
	go func() { woken <- awaitJobs(t, address) }()
	body := fmt.Sprintf(`{"Count":%d,"Target":{"Group":"app"},"Message":"why","Meta":{"a":1}}`, count)
	written := call(t, http.MethodPut, address+"/v1/job/"+scaled+"/scale", body)
	if written.status != http.StatusOK {
		t.Fatalf("%s: scale to %d: %d %s", address, count, written.status, written.body)
	}
	seen := map[string]bool{}
	for name := range shapeOf(t, written.body) {
		seen["the answer has "+name] = true
	}
	followDeployment(t, address, before, seen)
	seen[fmt.Sprintf("the list of jobs that was waited for: %d", <-woken)] = true
	seen[fmt.Sprintf("the same count again: %d", call(t, http.MethodPut, address+"/v1/job/"+scaled+"/scale", body).status)] = true
	followDeployment(t, address, before, seen)
	return seen
}

// awaitJobs waits for a change of the list of jobs.
func awaitJobs(t *testing.T, address string) (status int) {
	index := get(t, address, "/v1/jobs").header.Get("X-Nomad-Index")
	return call(t, http.MethodGet, address+"/v1/jobs?wait=20s&index="+index, "").status
}

func readJob(t *testing.T, address string) map[string]any {
	t.Helper()
	return list(t, address, "/v1/jobs?filter="+url.QueryEscape(`ID == "`+scaled+`"`))[0]
}

// indexOf is an index inside of a job.
func indexOf(of map[string]any, path ...string) float64 {
	for _, name := range path[:len(path)-1] {
		of = of[name].(map[string]any)
	}
	return of[path[len(path)-1]].(float64)
}

// followDeployment notes what is seen of a job until its newest deployment is over:
// but for what lasts so short that it may be missed.
func followDeployment(t *testing.T, address string, before map[string]any, seen map[string]bool) {
	t.Helper()
	mine := "?filter=" + url.QueryEscape(`JobID == "`+scaled+`"`)
	wait.For(t, time.Minute, "end of the deployment", func() (string, bool) {
		now := readJob(t, address)
		if index := indexOf(now, "JobModifyIndex"); index > indexOf(before, "JobModifyIndex") && index == indexOf(now, "ModifyIndex") {
			seen["the job's indexes are one"] = true
		}
		if indexOf(now, "JobSummary", "ModifyIndex") > indexOf(before, "JobSummary", "ModifyIndex") {
			seen["the summary's index moved"] = true
		}
		for _, a := range list(t, address, "/v1/allocations"+mine) {
			healthy := "is not told"
			if status, told := a["DeploymentStatus"].(map[string]any); told {
				healthy = fmt.Sprint(status["Healthy"])
			}
			if a["ClientStatus"] == "complete" || a["ClientStatus"] == "running" && a["DesiredStatus"] == "run" {
				seen[fmt.Sprintf("an allocation is to %s and %s, its health %s", a["DesiredStatus"], a["ClientStatus"], healthy)] = true
			}
			if indexOf(a, "ModifyIndex") > indexOf(now, "JobModifyIndex") {
				seen["an allocation moved after the job"] = true
			}
		}
		over := false
		for _, d := range list(t, address, "/v1/deployments"+mine) {
			seen[fmt.Sprintf("a deployment is %s: %s", d["Status"], d["StatusDescription"])] = true
			if d["Status"] == "running" {
				refused := call(t, http.MethodPut, address+"/v1/job/"+scaled+"/scale", `{"Count":3,"Target":{"Group":"app"}}`)
				if refused.status != http.StatusOK { // it may be over by now
					seen[fmt.Sprintf("meanwhile: %d %s", refused.status, bytes.TrimSpace(refused.body))] = true
				}
			}
			over = over || d["Status"] == "successful" && indexOf(d, "JobSpecModifyIndex") == indexOf(now, "JobModifyIndex")
		}
		return fmt.Sprint(now), over
	})
}

// TestPrometheusAnswers compares the simulator's answers with a real server's.
func TestPrometheusAnswers(t *testing.T) {
	s, err := surround(t.Context(), row{n: 50, period: 15 * time.Second})
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
			ask := func(address string) answer {
				if method == http.MethodGet {
					return call(t, method, address+one.path+"?"+one.form, "")
				}
				return call(t, method, address+one.path, one.form)
			}
			real, simulated := both(p, ask)
			if diff := cmp.Diff(answered(t, real), answered(t, simulated)); diff != "" {
				t.Errorf("%s %s %s (-real +simulated):\n%s", method, one.path, one.form, diff)
			}
			if real.header.Get("Content-Encoding") != simulated.header.Get("Content-Encoding") || real.header.Get("Content-Type") != simulated.header.Get("Content-Type") {
				t.Errorf("%s has the headers %v, and in truth %v", one.path, simulated.header, real.header)
			}
		}
	}
	refused := func(address string) map[string]string {
		a := call(t, http.MethodGet, address+"/api/v1/query?query=sum(", "")
		fields := shapeOf(t, a.body)
		fields["status"] = strconv.Itoa(a.status)
		return fields
	}
	if real, simulated := both(p, refused); !maps.Equal(real, simulated) {
		t.Errorf("a bad query (-real +simulated):\n%s", cmp.Diff(real, simulated))
	}
	build := func(address string) map[string]string {
		return shapeOf(t, get(t, address, "/api/v1/status/buildinfo").body)
	}
	if real, simulated := both(p, build); !maps.Equal(real, simulated) {
		t.Errorf("build information (-real +simulated):\n%s", cmp.Diff(real, simulated))
	}
}

// answered is an answer with its series in order.
func answered(t *testing.T, a answer) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(a.body, &body); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if data, is := body["data"].(map[string]any); is {
		if series, is := data["result"].([]any); is {
			slices.SortFunc(series, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return body
}
