package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// The default and the maximum wait time of blocking queries.
const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
)

// Nomad returns the HTTP API of the cluster.
func (w *World) Nomad() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(call) error) {
		mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			c := call{world: w, response: rw, request: r, query: r.URL.Query()}
			err := c.check()
			if err == nil {
				err = serve(c)
			}
			if err != nil {
				status := http.StatusBadRequest
				var refused statusError
				if errors.As(err, &refused) {
					status = refused.status
				}
				http.Error(rw, err.Error(), status)
			}
		})
	}
	handle("GET /v1/jobs", listJobs)
	handle("GET /v1/allocations", listAllocs)
	handle("GET /v1/deployments", listDeployments)
	handle("GET /v1/nodes", listNodes)
	handle("GET /v1/job/{id}", readJob)
	handle("GET /v1/job/{id}/allocations", listJobAllocs)
	handle("GET /v1/job/{id}/scale", readScale)
	handle("PUT /v1/job/{id}/scale", writeScale)
	handle("POST /v1/job/{id}/scale", writeScale)
	handle("GET /v1/scaling/policies", listPolicies)
	handle("GET /v1/scaling/policy/{id}", readPolicy)
	handle("GET /v1/status/leader", func(c call) error { return c.plain(`"10.0.0.1:4647"`) })
	handle("GET /v1/regions", func(c call) error { return c.plain(`["global"]`) })
	handle("GET /v1/agent/self", func(c call) error { return c.plain(agentSelf) })
	return mux
}

const agentSelf = `{"config":{"Datacenter":"dc1","Region":"global","Version":{"Version":"1.11.2"}},"member":{"Addr":"10.0.0.1","DelegateCur":4,"DelegateMax":5,"DelegateMin":2,"Name":"server-1.global","Port":4648,"ProtocolCur":2,"ProtocolMax":5,"ProtocolMin":1,"Status":"alive","Tags":{"build":"1.11.2","dc":"dc1","region":"global","role":"nomad"}},"stats":{"nomad":{"leader":"true","server":"true"}}}`

var errNoJob = statusError{http.StatusNotFound, "job not found"}

type statusError struct {
	status int
	text   string
}

func (e statusError) Error() string { return e.text }

// call is a request.
type call struct {
	world    *World
	response http.ResponseWriter
	request  *http.Request
	query    map[string][]string
}

func (c call) get(name string) string {
	if values := c.query[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// check rejects unknown query parameters.
func (c call) check() error {
	for name := range c.query {
		if !slices.Contains([]string{"region", "namespace", "stale", "index", "wait", "filter", "prefix", "resources", "task_states", "meta", "type", "per_page", "next_token", "all"}, name) {
			return fmt.Errorf("the simulator does not support the parameter %q", name)
		}
	}
	if namespace := c.get("namespace"); namespace != "" && namespace != "default" && namespace != "*" {
		return fmt.Errorf("the simulator has no namespace %q", namespace)
	}
	return nil
}

// block waits until current exceeds the index in the request. It returns with the world's read lock
// held.
func (c call) block(what watched, current func() uint64) {
	w := c.world
	after, _ := strconv.ParseUint(c.get("index"), 10, 64)
	if after == 0 {
		w.mu.RLock()
		return
	}
	wait, err := time.ParseDuration(c.get("wait"))
	if err != nil {
		wait = defaultWait
	}
	wait = min(wait, maxWait)
	limit := time.NewTimer(wait + rand.N(wait/16+1)) // Nomad adds the same jitter
	defer limit.Stop()
	for {
		w.mu.Lock()
		if current() > after {
			break
		}
		changed := w.watch(what)
		w.mu.Unlock()
		select {
		case <-changed:
			continue
		case <-limit.C:
		case <-c.request.Context().Done():
		}
		w.mu.RLock()
		return
	}
	w.mu.Unlock()
	w.mu.RLock()
}

// blockTable waits until one of the tables changes. It returns the highest index of the tables,
// with the world's read lock held.
func (c call) blockTable(tables ...int) uint64 {
	current := func() (index uint64) {
		for _, table := range tables {
			index = max(index, c.world.table[table])
		}
		return index
	}
	c.block(watched{table: tables[0]}, current)
	return current()
}

var compressors = sync.Pool{New: func() any {
	writer, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	return writer
}}

// respond streams JSON, compressed if the client accepts it. If index is not 0, it adds Nomad's
// headers.
func (c call) respond(index uint64, pieces func(yield func(appendTo func([]byte) []byte))) error {
	header := c.response.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Vary", "Accept-Encoding")
	if index > 0 {
		header.Set("X-Nomad-Index", strconv.FormatUint(index, 10))
		header.Set("X-Nomad-Lastcontact", "0")
		header.Set("X-Nomad-Knownleader", "true")
	}
	return send(c.response, c.request, pieces)
}

func send(response http.ResponseWriter, request *http.Request, pieces func(yield func(appendTo func([]byte) []byte))) error {
	var out io.Writer = response
	if strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") {
		response.Header().Set("Content-Encoding", "gzip")
		writer := compressors.Get().(*gzip.Writer)
		defer compressors.Put(writer)
		writer.Reset(response)
		defer func() { _ = writer.Close() }()
		out = writer
	}
	const full = 64 << 10
	buffer := make([]byte, 0, full+16<<10)
	var failed error
	pieces(func(appendTo func([]byte) []byte) {
		if buffer = appendTo(buffer); len(buffer) >= full {
			if failed == nil {
				_, failed = out.Write(buffer)
			}
			buffer = buffer[:0]
		}
	})
	if failed == nil {
		_, _ = out.Write(buffer)
	}
	return nil // the client has disconnected
}

func (c call) plain(body string) error {
	return c.respond(0, func(yield func(func([]byte) []byte)) { yield(func(dst []byte) []byte { return append(dst, body...) }) })
}

// list sends the documents that match the request's filter.
func list[T any](c call, index uint64, all []T, known fields[T], stub func([]byte, T) []byte) error {
	pass, err := compile(c.get("filter"), known)
	if err != nil {
		return err
	}
	prefix, id := c.get("prefix"), known["ID"]
	if prefix != "" && id == nil {
		return errors.New("the simulator does not support a prefix here")
	}
	passes := func(one T) bool { return (prefix == "" || strings.HasPrefix(id(one), prefix)) && pass(one) }
	if size, err := strconv.Atoi(c.get("per_page")); err == nil && size > 0 && id != nil {
		page, next := pageOf(all, size, c.get("next_token"), id, passes)
		if all = page; next != "" {
			c.response.Header().Set("X-Nomad-Nexttoken", next)
		}
	}
	return c.respond(index, func(yield func(func([]byte) []byte)) {
		next := "["
		for _, one := range all {
			if c.request.Context().Err() != nil {
				return
			}
			if passes(one) {
				yield(func(dst []byte) []byte { return stub(append(dst, next...), one) })
				next = ","
			}
		}
		if next == "[" {
			yield(func(dst []byte) []byte { return append(dst, '[') })
		}
		yield(func(dst []byte) []byte { return append(dst, ']') })
	})
}

// pageOf returns the page that starts at a token, and the token of the next page, which is empty
// after the last page.
func pageOf[T any](all []T, size int, token string, id func(T) string, passes func(T) bool) (page []T, next string) {
	first, _ := slices.BinarySearchFunc(all, token, func(one T, token string) int { return strings.Compare(id(one), token) })
	for _, one := range all[first:] {
		switch {
		case !passes(one):
		case len(page) == size:
			return page, id(one)
		default:
			page = append(page, one)
		}
	}
	return page, ""
}

func listJobs(c call) error {
	index := c.blockTable(jobsTable, summariesTable)
	all := c.jobs()
	c.world.mu.RUnlock()
	meta := c.get("meta") == "true"
	return list(c, index, all, jobFields, func(dst []byte, j *job) []byte { return j.stub(dst, meta) })
}

// jobs returns all jobs, sorted by ID. The caller holds the lock.
func (c call) jobs() []*job { return slices.Clone(c.world.jobs) }

func (c call) detail(resources bool) detail {
	return detail{resources: resources, states: c.get("task_states") != "false"}
}

func listAllocs(c call) error {
	prefix := c.get("prefix")
	if len(strings.ReplaceAll(prefix, "-", ""))%2 != 0 {
		return statusError{http.StatusInternalServerError, "alloc lookup failed: index error: Input (without hyphens) must be even length"}
	}
	index := c.blockTable(allocsTable)
	all := c.world.allocs // sorted by ID
	first, _ := slices.BinarySearchFunc(all, prefix, func(a *alloc, id string) int { return strings.Compare(a.id, id) })
	last := first
	for last < len(all) && strings.HasPrefix(all[last].id, prefix) {
		last++
	}
	all = slices.Clone(all[first:last])
	jobs := make(map[int]*job, len(all))
	for _, a := range all {
		jobs[a.job] = c.world.jobs[a.job]
	}
	c.world.mu.RUnlock()
	with := c.detail(c.get("resources") == "true")
	return list(c, index, all, allocFields, func(dst []byte, a *alloc) []byte { return a.stub(dst, jobs[a.job], with) })
}

func listDeployments(c call) error {
	index := c.blockTable(deploymentsTable)
	all := c.jobs()
	c.world.mu.RUnlock()
	slices.SortFunc(all, func(a, b *job) int { return strings.Compare(a.deployment.id, b.deployment.id) })
	return list(c, index, all, deploymentFields, func(dst []byte, j *job) []byte { return j.deployment.stub(dst, j) })
}

func listNodes(c call) error {
	index := c.blockTable(nodesTable)
	c.world.mu.RUnlock()
	all := make([]int, nodes)
	for n := range all {
		all[n] = n
	}
	return list(c, index, all, fields[int]{"ID": nodeID, "Status": func(int) string { return "ready" }}, func(dst []byte, n int) []byte {
		return nodeStub(dst, n, c.world.begun, c.get("resources") == "true")
	})
}

func (c call) one(index uint64, appendTo func([]byte) []byte) error {
	return c.respond(index, func(yield func(func([]byte) []byte)) { yield(appendTo) })
}

// blockJob waits until the requested job changes, and returns it.
func (c call) blockJob(indexOf func(*job) uint64) (*job, error) {
	number, err := c.jobNumber(c.request.PathValue("id"))
	if err != nil {
		return nil, err
	}
	c.block(watched{table: -1, job: number}, func() uint64 { return indexOf(c.world.jobs[number]) })
	defer c.world.mu.RUnlock()
	return c.world.jobs[number], nil
}

func (c call) jobNumber(id string) (int, error) { return c.world.number(id) }

func (w *World) number(id string) (int, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(id, "shop-"))
	if err != nil || number < 0 || number >= w.options.Jobs || JobID(number) != id {
		return 0, errNoJob
	}
	return number, nil
}

func readJob(c call) error {
	j, err := c.blockJob(func(j *job) uint64 { return j.index })
	if err != nil {
		return err
	}
	return c.one(j.index, func(dst []byte) []byte { return j.specification(dst, c.world.options.Period) })
}

// allIndex returns the highest index of a job and its allocations.
func (j *job) allIndex() uint64 {
	index := j.index
	for _, a := range j.allocs {
		index = max(index, a.index)
	}
	return index
}

// listJobAllocs returns an empty list for an unknown job, like Nomad.
func listJobAllocs(c call) error {
	j, err := c.blockJob((*job).allIndex)
	if errors.Is(err, errNoJob) {
		index := c.blockTable(allocsTable)
		defer c.world.mu.RUnlock()
		return list(c, index, nil, allocFields, func(dst []byte, _ *alloc) []byte { return dst })
	}
	if err != nil {
		return err
	}
	with := c.detail(false)
	return list(c, j.allIndex(), j.allocs, allocFields, func(dst []byte, a *alloc) []byte { return a.stub(dst, j, with) })
}

func readScale(c call) error {
	j, err := c.blockJob((*job).allIndex)
	if err != nil {
		return err
	}
	return c.one(j.allIndex(), j.scaleStatus)
}

// writeScale makes the same checks as the real server, in the same order.
func writeScale(c call) error {
	var request struct {
		Count          *int
		Target         map[string]string
		Message        string
		Meta           json.RawMessage
		Error          bool
		JobModifyIndex uint64
	}
	if err := json.NewDecoder(c.request.Body).Decode(&request); err != nil {
		return err
	}
	number, err := c.jobNumber(c.request.PathValue("id"))
	if err != nil {
		return statusError{http.StatusNotFound, fmt.Sprintf("job %q not found", c.request.PathValue("id"))}
	}
	w := c.world
	w.mu.Lock()
	j := w.jobs[number]
	specIndex, eval := j.specIndex, ""
	switch {
	case request.Count == nil && request.Error: // an error event of nomad-autoscaler
	case request.Count == nil: // a dry-run event
	case *request.Count < 0:
		err = fmt.Errorf("scaling action count can't be negative")
	case request.Target["Group"] != "app":
		err = fmt.Errorf("task group %q specified for scaling does not exist in job", request.Target["Group"])
	case *request.Count > maxCount:
		err = fmt.Errorf("group count was greater than scaling policy maximum: %d > %d", *request.Count, maxCount)
	case *request.Count < 1:
		err = fmt.Errorf("group count was less than scaling policy minimum: %d < 1", *request.Count)
	case j.deployment.status == "running":
		err = fmt.Errorf("job scaling blocked due to active deployment")
	case request.JobModifyIndex > 0 && request.JobModifyIndex != j.specIndex:
		err = statusError{http.StatusInternalServerError, fmt.Sprintf("Enforcing job modify index %d: job exists with conflicting job modify index: %d", request.JobModifyIndex, j.specIndex)}
	default:
		specIndex, eval = w.scale(number, *request.Count, request.Message, meta(request.Meta))
	}
	index := w.index
	w.mu.Unlock()
	if err != nil {
		return err
	}
	header := c.response.Header()
	header.Set("X-Nomad-Index", strconv.FormatUint(index, 10))
	return c.plain(fmt.Sprintf(`{"EvalCreateIndex":%d,"EvalID":%q,"Index":%d,"JobModifyIndex":%d,"KnownLeader":true,"LastContact":0,"NextToken":"","Warnings":""}`, index, eval, index, specIndex))
}

func listPolicies(c call) error {
	index := c.blockTable(policiesTable)
	all := c.jobs()
	c.world.mu.RUnlock()
	return list(c, index, all, fields[*job]{}, func(dst []byte, j *job) []byte { return j.policyStub(dst) })
}

func readPolicy(c call) error {
	number, err := strconv.ParseInt(strings.TrimPrefix(c.request.PathValue("id"), policyPrefix), 16, 64)
	if err != nil || int(number) >= c.world.options.Jobs {
		return statusError{http.StatusNotFound, "policy not found"}
	}
	j := c.world.jobs[number]
	c.block(watched{table: policiesTable}, func() uint64 { return j.createIndex })
	c.world.mu.RUnlock()
	return c.one(j.createIndex, func(dst []byte) []byte { return j.policy(dst, c.world.options.Period) })
}

// meta returns the metadata in a request, or null.
func meta(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return raw
}
