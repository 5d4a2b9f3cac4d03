package nomad

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/targettest"
)

// fakeServer is an in-memory Nomad server with the part of the HTTP API that a fleet uses.
type fakeServer struct {
	t      testing.TB
	server *httptest.Server
	rival  targettest.Rival

	mu    sync.Mutex
	index uint64
	jobs  map[string]*fakeJob
	// throttle makes all calls fail with status 429. hang makes calls block.
	throttle bool
	hang     chan struct{}
	// dark is the set of nodes that do not respond.
	dark map[string]bool
	// slow is the set of jobs whose allocations stop with a delay.
	slow map[string]bool
	// lazy disables the scheduler: counts change, but allocations do not.
	lazy bool
	// forbidden is the set of paths that the token may not use.
	forbidden map[string]bool
	calls     map[string]int
	// filters maps paths to the filters of the last lists, and listed maps them to the number of
	// listed elements.
	filters map[string]string
	listed  map[string]int
	// longest maps paths to the length of the longest filter in the URL.
	longest map[string]int
	scaled  []map[string]any
	// lose is the number of dispatches whose responses are lost. dispatched lists the others' requests.
	lose       int
	dispatched []dispatchRequest
}

type dispatchRequest struct {
	Payload          []byte
	Meta             map[string]string
	IdPrefixTemplate string
}

type fakeJob struct {
	id, kind    string
	count       int
	maximum     int
	createIndex uint64
	index       uint64
	version     uint64
	stopped     bool
	deployment  string
	// ended lists the statuses of ended deployments.
	ended    []string
	deployed bool
	allocs   []*fakeAlloc
	made     int
	// meta is the group's meta. parent is the ID of the job that launched this job.
	meta   map[string]string
	parent string
	// status is the job's status; empty means running.
	status string
	// parameterized jobs have children, and token is the idempotency token of a child.
	parameterized bool
	token         string
	// queued is the number of allocations that cannot be placed, and full is the exhausted
	// dimension.
	queued int
	full   string
	// checked reports whether the group has a service that Nomad checks.
	checked bool
	// extra contains additional fields of the specification.
	extra map[string]any
	// summary is the index of the last change to the allocation counts, and stable is the job's
	// ModifyIndex.
	summary, stable uint64
	summed          string
}

type fakeAlloc struct {
	id, desired, client string
	number              int
	created, started    time.Time
	version             uint64
	healthy             *bool
	turned              time.Time
	canary              bool
	gone                time.Time
	// next is the ID of its replacement. events contains its task's events as JSON.
	next, events string
	// checks lists the results of its service checks; if it is nil, its node does not respond.
	checks []string
	// index belongs to the last change, and listed is the appearance after that change.
	index  uint64
	listed appearance
}

// appearance is the mutable part of an allocation in a list.
type appearance struct {
	desired, client, next, events, health string
	version                               uint64
	started, turned                       time.Time
	canary                                bool
}

func (a *fakeAlloc) appearance() appearance {
	health := "unknown"
	if a.healthy != nil {
		health = strconv.FormatBool(*a.healthy)
	}
	return appearance{a.desired, a.client, a.next, a.events, health, a.version, a.started, a.turned, a.canary}
}

func newFakeServer(t testing.TB) *fakeServer {
	i := unserved(t)
	i.server = httptest.NewServer(i)
	t.Cleanup(func() {
		i.setHang(false)
		i.server.CloseClientConnections()
		i.server.Close()
	})
	return i
}

func unserved(t testing.TB) *fakeServer {
	return &fakeServer{
		t: t, index: 10, jobs: map[string]*fakeJob{}, dark: map[string]bool{}, slow: map[string]bool{}, forbidden: map[string]bool{},
		calls: map[string]int{}, filters: map[string]string{}, listed: map[string]int{}, longest: map[string]int{},
	}
}

func (i *fakeServer) setHang(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if on && i.hang == nil {
		i.hang = make(chan struct{})
	} else if !on && i.hang != nil {
		close(i.hang)
		i.hang = nil
	}
}

// add registers a service job with one group named "app".
func (i *fakeServer) add(id string, count int) *fakeJob {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.index++
	job := &fakeJob{id: id, kind: "service", createIndex: i.index, index: i.index, count: count}
	i.jobs[id] = job
	i.schedule(job)
	return job
}

// change modifies a job and increases its index.
func (i *fakeServer) change(id string, change func(job *fakeJob)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.index++
	job := i.jobs[id]
	job.index = i.index
	job.version++
	change(job)
	i.schedule(job)
}

// schedule starts and stops allocations until their number equals the count.
func (i *fakeServer) schedule(job *fakeJob) {
	if i.lazy {
		return
	}
	want := job.count
	if job.stopped {
		want = 0
	}
	var running []*fakeAlloc
	for _, alloc := range job.allocs {
		if alloc.desired == "run" && !alloc.canary {
			running = append(running, alloc)
			alloc.version = job.version
			if job.deployed {
				alloc.healthy = nil // every count change resets the health
			}
		}
	}
	for number := 0; len(running) < want; number++ {
		if !slices.ContainsFunc(running, func(a *fakeAlloc) bool { return a.number == number }) {
			now := time.Now()
			job.made++
			alloc := &fakeAlloc{
				id: fmt.Sprintf("%08x-%08x-%04d", (job.made*2654435761)&0xffffffff, crc32.ChecksumIEEE([]byte(job.id)), job.made), desired: "run", client: "running",
				number: number, created: now, started: now, version: job.version,
			}
			if job.deployed {
				yes := true
				alloc.healthy, alloc.turned = &yes, now
			}
			job.allocs = append(job.allocs, alloc)
			running = append(running, alloc)
		}
	}
	slices.SortFunc(running, func(a, b *fakeAlloc) int { return a.number - b.number })
	for _, victim := range running[want:] {
		victim.desired = "stop"
		victim.gone = time.Now()
		if i.slow[job.id] {
			victim.gone = victim.gone.Add(300 * time.Millisecond)
		}
	}
}

// ServeHTTP implements the API of a Nomad agent.
func (i *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.rival.Meet(r.Method + " " + r.URL.Path)
	i.mu.Lock()
	hang := i.hang
	i.calls[r.URL.Path]++
	switch {
	case hang != nil:
		i.mu.Unlock()
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return
	case i.throttle:
		i.mu.Unlock()
		w.Header().Set("Connection", "close")
		http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
		return
	case i.forbidden[r.URL.Path]:
		i.mu.Unlock()
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	defer i.mu.Unlock()
	if path := r.URL.Path; path == "/v1/jobs" || path == "/v1/allocations" {
		i.settle()
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(i.index, 10))
	if all := i.list(r.URL.Path); all != nil {
		i.answerList(w, r, all)
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/"), "/")
	for n := range path {
		path[n], _ = url.PathUnescape(path[n])
	}
	switch {
	case path[0] == "job" && len(path) == 3 && path[2] == "allocations":
		i.settle()
		i.answerList(w, r, i.listAllocs(path[1]))
	case r.URL.Path == "/v1/status/leader":
		i.answer(w, "127.0.0.1:4647")
	case r.URL.Path == "/v1/agent/self":
		i.answer(w, map[string]any{"member": map[string]any{"Tags": map[string]string{"build": "1.11.2"}}})
	case path[0] == "job" && len(path) == 3 && path[2] == "scale":
		i.scale(w, r, path[1])
	case path[0] == "job" && len(path) == 3 && path[2] == "dispatch":
		i.dispatch(w, r, path[1])
	case path[0] == "job" && len(path) == 2:
		i.readJob(w, path[1])
	case path[0] == "client" && len(path) == 4 && path[3] == "stats":
		i.stats(w, path[2])
	case path[0] == "client" && len(path) == 4 && path[3] == "checks":
		i.answerChecks(w, path[2])
	default:
		http.Error(w, "Invalid path "+r.URL.Path, http.StatusNotFound)
	}
}

func (i *fakeServer) answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

// list returns all elements of the list at a path; nil if the path is not a list.
func (i *fakeServer) list(path string) []map[string]any {
	switch path {
	case "/v1/jobs":
		return i.listJobs()
	case "/v1/allocations":
		return i.listAllocs("")
	case "/v1/deployments":
		return i.listDeployments()
	case "/v1/evaluations":
		return i.listBlocked()
	case "/v1/nodes":
		return []map[string]any{{"ID": "node-1", "NodeResources": map[string]any{"Cpu": map[string]any{"CpuShares": 8000, "TotalCpuCores": 4}}}}
	}
	return nil
}

// settle increases the indexes of changed objects, as a real server does. The index of a job's
// summary increases only when an allocation is placed or changes its client status.
func (i *fakeServer) settle() {
	for _, id := range slices.Sorted(maps.Keys(i.jobs)) {
		job := i.jobs[id]
		states := []any{job.createIndex, job.queued}
		for _, alloc := range job.allocs {
			if alloc.desired == "stop" && alloc.client == "running" && time.Now().After(alloc.gone) {
				alloc.client = "complete"
			}
			if now := alloc.appearance(); alloc.listed != now {
				i.index++
				alloc.index, alloc.listed = i.index, now
			}
			states = append(states, alloc.id, alloc.client)
		}
		if summed := fmt.Sprint(states...); job.summed != summed {
			i.index++
			job.summary, job.summed = i.index, summed
		}
	}
}

// answerList responds with the elements that match the filter of a call.
func (i *fakeServer) answerList(w http.ResponseWriter, r *http.Request, all []map[string]any) {
	expression := r.URL.Query().Get("filter")
	passed, err := pass(expression, all)
	if err != nil {
		i.t.Errorf("list %s: %v", r.URL.Path, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i.longest[r.URL.Path] = max(i.longest[r.URL.Path], len(url.QueryEscape(expression)))
	query := r.URL.Query()
	prefix := query.Get("prefix")
	if len(strings.ReplaceAll(prefix, "-", ""))%2 != 0 {
		http.Error(w, "index error: Input (without hyphens) must be even length", http.StatusInternalServerError)
		return
	}
	passed = slices.DeleteFunc(passed, func(element map[string]any) bool { return !strings.HasPrefix(fmt.Sprint(element["ID"]), prefix) })
	passed = page(w, query, passed)
	for _, element := range passed {
		if query.Get("resources") != "true" || r.URL.Path != "/v1/allocations" {
			delete(element, "AllocatedResources")
		}
		if query.Get("task_states") == "false" {
			delete(element, "TaskStates")
		}
	}
	i.filters[r.URL.Path], i.listed[r.URL.Path] = expression, len(passed)
	i.answer(w, passed)
}

// page returns the requested page of a list, sorted by ID, and sets the token of the next page.
func page(w http.ResponseWriter, query url.Values, all []map[string]any) []map[string]any {
	size, _ := strconv.Atoi(query.Get("per_page"))
	if size == 0 {
		return all
	}
	id := func(element map[string]any) string { return fmt.Sprint(element["ID"]) }
	slices.SortStableFunc(all, func(a, b map[string]any) int { return strings.Compare(id(a), id(b)) })
	all = slices.DeleteFunc(all, func(element map[string]any) bool { return id(element) < query.Get("next_token") })
	if len(all) > size {
		w.Header().Set("X-Nomad-NextToken", id(all[size]))
		all = all[:size]
	}
	return all
}

func (i *fakeServer) listJobs() []map[string]any {
	list := []map[string]any{}
	for _, job := range i.jobs {
		states := map[string]int{}
		for _, alloc := range job.allocs {
			states[alloc.client]++
		}
		list = append(list, map[string]any{
			"ID": job.id, "ParentID": job.parent, "Name": job.id, "Namespace": "default", "Type": job.kind, "Stop": job.stopped, "Status": cmp.Or(job.status, "running"),
			"ParameterizedJob": job.parameterized, "SubmitTime": time.Now().UnixNano(), "CreateIndex": job.createIndex, "JobModifyIndex": job.index, "ModifyIndex": max(job.index+6, job.stable),
			"JobSummary": map[string]any{"ModifyIndex": job.summary, "Summary": map[string]any{"app": map[string]any{"Queued": job.queued, "Starting": states["pending"], "Running": states["running"], "Unknown": states["unknown"], "Complete": states["complete"]}}},
		})
	}
	return list
}

// listAllocs returns the allocations of a job, or of all jobs.
func (i *fakeServer) listAllocs(of string) []map[string]any {
	list := []map[string]any{}
	for _, job := range i.jobs {
		if of != "" && job.id != of {
			continue
		}
		for _, alloc := range job.allocs {
			stub := alloc.stub(job)
			stub["ModifyIndex"] = alloc.index
			list = append(list, stub)
		}
	}
	return list
}

func (a *fakeAlloc) stub(job *fakeJob) map[string]any {
	events := cmp.Or(a.events, `[{"Type":"Received"}]`)
	stub := map[string]any{
		"NextAllocation": a.next,
		"ID":             a.id, "Name": fmt.Sprintf("%s.app[%d]", job.id, a.number), "NodeID": "node-1", "NodeName": "vm1", "JobID": job.id, "JobType": job.kind,
		"JobVersion": a.version, "TaskGroup": "app", "DesiredStatus": a.desired, "ClientStatus": a.client, "CreateTime": a.created.UnixNano(),
		"AllocatedResources": map[string]any{
			"Tasks":          map[string]any{"main": map[string]any{"Cpu": map[string]any{"CpuShares": 500}, "Memory": map[string]any{"MemoryMB": 256}}},
			"TaskLifecycles": map[string]any{"main": nil},
			"Shared":         map[string]any{"Ports": []any{map[string]any{"Label": "http", "Value": 20000 + a.number, "HostIP": "10.0.0.1"}}},
		},
		"TaskStates": map[string]any{"main": map[string]any{"State": "running", "StartedAt": a.started, "Events": json.RawMessage(events)}},
	}
	if a.healthy != nil || a.canary {
		stub["DeploymentStatus"] = map[string]any{"Healthy": a.healthy, "Timestamp": a.turned, "Canary": a.canary}
	}
	return stub
}

func (i *fakeServer) listDeployments() []map[string]any {
	list := []map[string]any{}
	for _, job := range i.jobs {
		add := func(status, description string) {
			list = append(list, map[string]any{
				"ID": "d0000000-0000", "JobID": job.id, "JobCreateIndex": job.createIndex, "Status": status, "StatusDescription": description,
			})
		}
		if job.deployment != "" {
			add("running", job.deployment)
		}
		for _, status := range job.ended {
			add(status, "Deployment is over")
		}
	}
	return list
}

// listBlocked returns two evaluations for each job: one complete and one blocked.
func (i *fakeServer) listBlocked() []map[string]any {
	list := []map[string]any{}
	for _, job := range i.jobs {
		list = append(list, map[string]any{"JobID": job.id, "Status": "complete"})
		if job.full != "" {
			failed := map[string]any{"NodesEvaluated": 1, "NodesExhausted": 1, "DimensionExhausted": map[string]int{job.full: 1}}
			list = append(list, map[string]any{"JobID": job.id, "Status": "blocked", "FailedTGAllocs": map[string]any{"app": failed}})
		}
	}
	return list
}

func (i *fakeServer) readJob(w http.ResponseWriter, id string) {
	job := i.jobs[id]
	if job == nil {
		http.Error(w, "job not found", http.StatusNotFound)
		return
	}
	group := map[string]any{"Name": "app", "Count": job.count, "Update": map[string]any{"MaxParallel": 0}, "Meta": job.meta}
	if job.deployed {
		group["Update"] = map[string]any{"MaxParallel": 1}
	}
	if job.checked {
		group["Services"] = []any{map[string]any{"Provider": "nomad", "Checks": []any{map[string]any{"Name": "alive"}}}}
	}
	if job.maximum > 0 {
		group["Scaling"] = map[string]any{"Min": 0, "Max": job.maximum}
	}
	answer := map[string]any{
		"ID": id, "Name": id, "Type": job.kind, "Stop": job.stopped, "CreateIndex": job.createIndex,
		"JobModifyIndex": job.index, "ModifyIndex": job.index + 6, "Version": job.version, "TaskGroups": []any{group},
	}
	if job.parameterized {
		answer["ParameterizedJob"] = map[string]any{}
	}
	maps.Copy(answer, job.extra)
	i.answer(w, answer)
}

// scale makes the same checks as a real server, in the same order.
func (i *fakeServer) scale(w http.ResponseWriter, r *http.Request, id string) {
	var request struct {
		Count          int
		Target         map[string]string
		Message        string
		Meta           map[string]any
		JobModifyIndex uint64
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	job := i.jobs[id]
	switch {
	case request.Count < 0:
		http.Error(w, "scaling action count can't be negative", http.StatusBadRequest)
	case job == nil:
		http.Error(w, fmt.Sprintf("job %q not found", id), http.StatusNotFound)
	case request.Target["Group"] != "app":
		http.Error(w, fmt.Sprintf("task group %q specified for scaling does not exist in job", request.Target["Group"]), http.StatusBadRequest)
	case job.maximum > 0 && request.Count > job.maximum:
		http.Error(w, fmt.Sprintf("group count was greater than scaling policy maximum: %d > %d", request.Count, job.maximum), http.StatusBadRequest)
	case job.deployment != "":
		http.Error(w, "job scaling blocked due to active deployment", http.StatusBadRequest)
	case request.JobModifyIndex > 0 && request.JobModifyIndex != job.index:
		http.Error(w, fmt.Sprintf("Enforcing job modify index %d: job exists with conflicting job modify index: %d", request.JobModifyIndex, job.index), http.StatusInternalServerError)
	default:
		i.index++
		job.count, job.index = request.Count, i.index
		job.version++
		i.scaled = append(i.scaled, map[string]any{"message": request.Message, "meta": request.Meta})
		i.schedule(job)
		i.answer(w, map[string]any{"EvalID": "e", "JobModifyIndex": job.index, "Index": i.index})
	}
}

// addParameterized registers a parameterized batch job with one group named "app".
func (i *fakeServer) addParameterized(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.index++
	i.jobs[id] = &fakeJob{id: id, kind: "batch", createIndex: i.index, index: i.index, parameterized: true}
}

// dispatch creates a child with one allocation, unless there is a child with the same token.
func (i *fakeServer) dispatch(w http.ResponseWriter, r *http.Request, id string) {
	var request dispatchRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	token := r.URL.Query().Get("idempotency_token")
	switch parent := i.jobs[id]; {
	case parent == nil:
		http.Error(w, "parameterized job not found", http.StatusInternalServerError)
		return
	case parent.extra["PayloadRequired"] != nil && len(request.Payload) == 0:
		http.Error(w, "Payload is not provided but required by parameterized job", http.StatusInternalServerError)
		return
	}
	var child *fakeJob
	for _, job := range i.jobs {
		if job.parent == id && job.token == token {
			child = job
		}
	}
	if child == nil {
		i.index++
		child = &fakeJob{id: fmt.Sprintf("%s/dispatch-%s-%d", id, request.IdPrefixTemplate, i.index), kind: "batch", parent: id, token: token, createIndex: i.index, index: i.index, count: 1}
		i.jobs[child.id] = child
		i.schedule(child)
		i.dispatched = append(i.dispatched, request)
	}
	if i.lose > 0 {
		i.lose--
		panic(http.ErrAbortHandler)
	}
	i.answer(w, map[string]any{"DispatchedJobID": child.id, "JobCreateIndex": child.createIndex})
}

// children returns the IDs of the children of a job that have not ended.
func (i *fakeServer) children(parent string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(i.jobs)) {
		if job := i.jobs[id]; job.parent == parent && job.status != "dead" {
			ids = append(ids, id)
		}
	}
	return ids
}

// end completes the work of a child.
func (i *fakeServer) end(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	job := i.jobs[id]
	job.status = "dead"
	for _, alloc := range job.allocs {
		alloc.client = "complete"
	}
}

func (i *fakeServer) stats(w http.ResponseWriter, id string) {
	if i.dark["node-1"] {
		http.Error(w, "No path to node", http.StatusInternalServerError)
		return
	}
	use := map[string]any{
		"CpuStats":    map[string]any{"Percent": 12.5, "TotalTicks": 250.0, "Measured": []string{"Percent"}},
		"MemoryStats": map[string]any{"RSS": 50 << 20, "Cache": 10 << 20, "Usage": 100 << 20, "Measured": []string{"RSS", "Cache", "Usage"}},
	}
	now := time.Now().UnixNano()
	task := map[string]any{"ResourceUsage": use, "Timestamp": now}
	// A prestart task is listed, too.
	i.answer(w, map[string]any{"ResourceUsage": use, "Timestamp": now, "Tasks": map[string]any{"main": task, "setup": task}})
}

func (i *fakeServer) answerChecks(w http.ResponseWriter, id string) {
	for _, job := range i.jobs {
		for _, alloc := range job.allocs {
			if alloc.id == id && alloc.checks != nil {
				statuses := map[string]any{}
				for n, status := range alloc.checks {
					statuses[fmt.Sprint(n)] = map[string]any{"ID": fmt.Sprint(n), "Status": status}
				}
				i.answer(w, statuses)
				return
			}
		}
	}
	http.Error(w, "No path to node", http.StatusInternalServerError)
}

// counted returns the number of calls by path since counted was last called.
func (i *fakeServer) counted() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	counted := i.calls
	i.calls = map[string]int{}
	return counted
}
