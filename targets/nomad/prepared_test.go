package nomad

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// prepared is a Nomad server in memory with many jobs, whose lists have the size of a
// real one's: each element is a recorded one with other names and numbers, and is made
// beforehand. It is quick, and not as strict as imitation.
type prepared struct {
	// job and alloc are recorded elements, short is an allocation without resources and
	// states of tasks.
	job, alloc, short []byte

	mu     sync.Mutex
	index  uint64
	jobs   []*preparedJob
	byID   map[string]*preparedJob
	shards map[string][]*preparedAlloc
}

type preparedJob struct {
	id      string
	created uint64
	text    []byte
	spec    []byte
	allocs  []*preparedAlloc
}

type preparedAlloc struct {
	id, job           string
	number            int
	text, short       []byte
	started, modified time.Time
}

// realCounts are how many allocations jobs have: 1 to 20, 5 on average.
var realCounts = []int{1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 5, 6, 7, 10, 20}

// newPrepared returns so many jobs with allocations by counts, which ask for
// autoscalers, its address, and their names.
func newPrepared(t testing.TB, jobs int, counts []int) (p *prepared, address string, refs []targets.Ref) {
	t.Helper()
	p = &prepared{
		job: recorded(t, "jobs.json"), alloc: recorded(t, "allocations.json", "side", "init"), index: 10,
		byID: map[string]*preparedJob{}, shards: map[string][]*preparedAlloc{},
	}
	p.short = without(t, p.alloc, "AllocatedResources", "TaskStates")
	started := time.Now().Add(-time.Hour)
	for n := range jobs {
		id := fmt.Sprintf("job-%06d", n)
		p.index++
		job := &preparedJob{id: id, created: p.index}
		job.spec = fmt.Appendf(nil, `{"ID":%q,"Name":%q,"Type":"service","CreateIndex":%d,"JobModifyIndex":%d,"ModifyIndex":%d,"SubmitTime":1795265758149547619,"TaskGroups":[{"Name":"app","Count":%d,"Update":{"MaxParallel":0},"Meta":{%q:"true","hpad.max":"9"}}]}`,
			id, id, p.index, p.index, p.index, counts[n%len(counts)], targets.EnableLabel)
		for number := range counts[n%len(counts)] {
			alloc := &preparedAlloc{id: fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32((n*32+number)*2654435761), number, n), job: id, number: number, started: started, modified: started}
			job.allocs = append(job.allocs, alloc)
			p.shards[alloc.id[:2]] = append(p.shards[alloc.id[:2]], alloc)
			p.write(alloc)
		}
		p.jobs, p.byID[id] = append(p.jobs, job), job
		p.list(job, p.index)
		refs = append(refs, ref(id+"/app"))
	}
	return p, newHandler(t, p.serve), refs
}

// recorded returns the first element of a recorded list, without some tasks.
func recorded(t testing.TB, file string, tasks ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		delete(list[0]["TaskStates"].(map[string]any), task)
		resources := list[0]["AllocatedResources"].(map[string]any)
		delete(resources["Tasks"].(map[string]any), task)
		delete(resources["TaskLifecycles"].(map[string]any), task)
	}
	return marshal(t, list[0])
}

func without(t testing.TB, text []byte, members ...string) []byte {
	t.Helper()
	var element map[string]any
	if err := json.Unmarshal(text, &element); err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		delete(element, member)
	}
	return marshal(t, element)
}

func marshal(t testing.TB, element map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(element)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// replace sets the first value of a member in an element, which stands in quotes or is
// a number.
func replace(text []byte, member, value string) []byte {
	name := []byte(strconv.Quote(member) + ":")
	start := bytes.Index(text, name) + len(name)
	end := start + bytes.IndexAny(text[start+1:], ",}") + 1
	return append(append(append([]byte{}, text[:start]...), value...), text[end:]...)
}

// write makes the texts of an allocation.
func (p *prepared) write(a *preparedAlloc) {
	a.text, a.short = p.alloc, p.short
	for _, text := range []*[]byte{&a.text, &a.short} {
		*text = replace(*text, "ID", strconv.Quote(a.id))
		*text = replace(*text, "JobID", strconv.Quote(a.job))
		*text = replace(*text, "Name", fmt.Sprintf(`"%s.app[%d]"`, a.job, a.number))
		*text = replace(*text, "ModifyIndex", strconv.FormatUint(p.index, 10))
	}
	a.text = replace(a.text, "StartedAt", strconv.Quote(a.started.UTC().Format(time.RFC3339Nano)))
}

// list makes the text of a job in the list, whose summary moved at an index.
func (p *prepared) list(job *preparedJob, summary uint64) {
	text := replace(p.job, "ID", strconv.Quote(job.id))
	text = bytes.Replace(text, []byte(`"Running":3`), fmt.Appendf(nil, `"Running":%d`, len(job.allocs)), 1)
	text = replace(text, "CreateIndex", strconv.FormatUint(job.created, 10))
	text = replace(text, "JobModifyIndex", strconv.FormatUint(job.created, 10))
	job.text = replace(text, "ModifyIndex", strconv.FormatUint(summary, 10)) // the summary's comes first
}

// unreserved is the text of an allocation as the list of its job has it.
func (a *preparedAlloc) unreserved() []byte {
	var element map[string]any
	_ = json.Unmarshal(a.text, &element)
	delete(element, "AllocatedResources")
	text, _ := json.Marshal(element)
	return text
}

var namedJob = regexp.MustCompile(`(?:JobID|ID) == "([^"]*)"`)

// serve serves as a Nomad agent.
func (p *prepared) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	var list [][]byte
	query := r.URL.Query()
	switch path := r.URL.Path; {
	case path == "/v1/jobs":
		for _, job := range p.named(query) {
			list = append(list, job.text)
		}
	case path == "/v1/allocations":
		for _, alloc := range p.allocations(query) {
			text := alloc.text
			if query.Get("task_states") == "false" {
				text = alloc.short
			}
			list = append(list, text)
		}
	case path == "/v1/nodes":
		list = append(list, []byte(`{"ID":"node-1"}`))
	case strings.HasSuffix(path, "/allocations"):
		for _, alloc := range p.byID[strings.Split(path, "/")[3]].allocs {
			list = append(list, alloc.unreserved())
		}
	case strings.HasPrefix(path, "/v1/job/"):
		_, _ = w.Write(p.byID[strings.TrimPrefix(path, "/v1/job/")].spec)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	w.Header().Set("X-Nomad-KnownLeader", "true")
	separator := []byte("[")
	for _, text := range list {
		_, _ = w.Write(separator)
		_, _ = w.Write(text)
		separator = []byte(",")
	}
	if len(list) == 0 {
		_, _ = w.Write(separator)
	}
	_, _ = w.Write([]byte("]"))
}

// named returns the jobs of a filter; all without one.
func (p *prepared) named(query url.Values) []*preparedJob {
	names := namedJob.FindAllStringSubmatch(query.Get("filter"), -1)
	if names == nil {
		return p.jobs
	}
	var jobs []*preparedJob
	for _, name := range names {
		jobs = append(jobs, p.byID[name[1]])
	}
	return jobs
}

// allocations returns the allocations of a prefix or a filter.
func (p *prepared) allocations(query url.Values) []*preparedAlloc {
	switch prefix := query.Get("prefix"); {
	case len(prefix) > 2:
		return slices.DeleteFunc(slices.Clone(p.shards[prefix[:2]]), func(a *preparedAlloc) bool { return a.id != prefix })
	case prefix != "":
		return p.shards[prefix]
	}
	var allocs []*preparedAlloc
	for _, job := range p.named(query) {
		allocs = append(allocs, job.allocs...)
	}
	return allocs
}

// TestPrepared: what the benchmarks read is what a real server would send of such
// jobs: 2.8 kB for an allocation, 0.6 for a job.
func TestPrepared(t *testing.T) {
	p, address, refs := newPrepared(t, len(realCounts), realCounts)
	if job, alloc := len(p.jobs[0].text), len(p.jobs[0].allocs[0].text); job < 550 || job > 650 || alloc < 2600 || alloc > 3000 {
		t.Errorf("%d bytes for a job and %d for an allocation, want about 600 and 2800", job, alloc)
	}
	readings, err := openFleet(t, testConfig(t, address), nil).Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for n, ref := range refs {
		reading := readings[ref]
		if reading.Err != nil || reading.StatusReplicas != int32(realCounts[n]) || reading.Locations.At(realCounts[n]-1).Name == "" || reading.Instances[0].Tasks == nil || !reading.Instances[0].StartedAt.Equal(p.jobs[n].allocs[0].started) {
			t.Errorf("reading of %s: %+v", ref, reading)
		}
	}
}
