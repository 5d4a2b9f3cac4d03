package swarm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/targettest"
)

// reconcileDelay is the time between a new count and its new tasks.
const reconcileDelay = 20 * time.Millisecond

// fakeManager implements the calls that the fleet makes. Like a real manager, it applies a new
// count with a delay.
type fakeManager struct {
	server *httptest.Server
	rival  targettest.Rival

	mu       sync.Mutex
	version  string
	index    uint64
	services []*fakeService
	// nodes lists the nodes in order. All tasks run on the first node.
	nodes []fakeNode
	// updates lists the bodies of the accepted updates. calls counts all calls by method and
	// path.
	updates []string
	calls   map[string]int
	sampled time.Time
	// throttle, refuse and hang affect all calls except the ping. refuse returns a status and a
	// message.
	throttle bool
	refuse   func(r *http.Request) (status int, message string)
	hang     chan struct{}
}

type fakeNode struct{ id, hostname string }

type fakeService struct {
	id      string
	spec    map[string]any
	version uint64
	// previous is the specification before the last update, or nil.
	previous any
	// updateStatus has the form used in the API. It is nil if there is none.
	updateStatus map[string]any
	changed      time.Time
	tasks        []*fakeTask
	// slow delays the end of stopped tasks.
	slow bool
	// err keeps new tasks pending, with this error.
	err string
}

type fakeTask struct {
	id, node       string
	slot           int
	state, desired string
	err            string
	spec           any
	created, since time.Time
}

func newFakeManager(t testing.TB) *fakeManager {
	t.Helper()
	i := &fakeManager{version: "1.41", index: 10, calls: map[string]int{}, nodes: []fakeNode{{"node1id", "node-1"}}}
	i.server = httptest.NewServer(i)
	t.Cleanup(func() {
		i.setHang(false)
		i.server.CloseClientConnections()
		i.server.Close()
	})
	return i
}

func (i *fakeManager) host() string { return "tcp://" + i.server.Listener.Addr().String() }

// add adds a replicated service with running tasks.
func (i *fakeManager) add(name string, count int) *fakeService {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.index++
	s := &fakeService{
		id: "id-of-" + name, version: i.index, changed: time.Now().Add(-time.Minute),
		spec: map[string]any{
			"Name": name, "Labels": map[string]any{},
			"TaskTemplate": map[string]any{"ContainerSpec": map[string]any{"Image": "worker:1@sha256:0", "Unheard": json.Number("12345678901234567890")}, "ForceUpdate": json.Number("0")},
			"Mode":         map[string]any{"Replicated": map[string]any{"Replicas": json.Number(strconv.Itoa(count))}},
		},
	}
	i.services = append(i.services, s)
	i.reconcileLocked(s, time.Now())
	return s
}

// with changes a service.
func (i *fakeManager) with(name string, change func(s *fakeService)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.findLocked(name)
	change(s)
	i.index++
	s.version = i.index
	s.changed = time.Now()
}

func (i *fakeManager) setHang(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.hang != nil {
		close(i.hang)
		i.hang = nil
	}
	if on {
		i.hang = make(chan struct{})
	}
}

func (i *fakeManager) setRefusal(refuse func(r *http.Request) (int, string)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refuse = refuse
}

// age changes the age of all tasks.
func (i *fakeManager) age(old time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.services {
		for _, task := range s.tasks {
			task.created = time.Now().Add(-old)
		}
	}
}

func (i *fakeManager) called(call string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[call]
}

func (i *fakeManager) findLocked(name string) *fakeService {
	for _, s := range i.services {
		if s.spec["Name"] == name || s.id == name {
			return s
		}
	}
	return nil
}

func (s *fakeService) setCount(n int) {
	s.spec["Mode"] = map[string]any{"Replicated": map[string]any{"Replicas": json.Number(strconv.Itoa(n))}}
}

// count returns a service's count, or false if the service is not replicated.
func (s *fakeService) count() (int, bool) {
	replicated, ok := s.spec["Mode"].(map[string]any)["Replicated"].(map[string]any)
	if !ok {
		return 0, false
	}
	n, err := replicated["Replicas"].(json.Number).Int64()
	return int(n), err == nil
}

// reconcileLocked applies a service's count, as the swarm's orchestrator does.
func (i *fakeManager) reconcileLocked(s *fakeService, now time.Time) {
	const stopping = 300 * time.Millisecond
	s.tasks = slices.DeleteFunc(s.tasks, func(t *fakeTask) bool {
		return t.desired == "remove" && (!s.slow || now.Sub(t.since) > stopping)
	})
	count, replicated := s.count()
	if !replicated || !s.slow && now.Sub(s.changed) < reconcileDelay {
		return
	}
	var living []*fakeTask
	used := map[int]bool{}
	for _, t := range s.tasks {
		if t.desired == "running" {
			living = append(living, t)
			used[t.slot] = true
		}
	}
	for slot := 1; len(living) < count; slot++ {
		if used[slot] {
			continue
		}
		i.index++
		t := &fakeTask{id: fmt.Sprintf("task%06d", i.index), node: i.nodes[0].id, slot: slot, state: "running", desired: "running", created: now, since: now, spec: s.spec["TaskTemplate"]}
		if s.err != "" {
			t.node, t.state, t.err = "", "pending", s.err
		}
		s.tasks = append(s.tasks, t)
		living = append(living, t)
	}
	slices.SortFunc(living, func(a, b *fakeTask) int {
		return cmp.Or(-cmp.Compare(a.state, b.state), cmp.Compare(a.slot, b.slot))
	})
	for _, t := range living[min(count, len(living)):] {
		t.desired, t.since = "remove", now
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t *fakeTask) bool { return t.desired == "remove" && !s.slow })
}

func (i *fakeManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	i.rival.Meet(r.Method + " " + r.URL.Path)
	i.mu.Lock()
	w.Header().Set("Api-Version", i.version)
	if r.URL.Path == "/_ping" {
		i.mu.Unlock()
		return
	}
	hang, throttle, refuse := i.hang, i.throttle, i.refuse
	prefix := "/v" + i.version
	i.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return
	}
	path, versioned := strings.CutPrefix(r.URL.Path, prefix)
	switch {
	case !versioned:
		refused(w, http.StatusBadRequest, "client version is too new")
	case throttle:
		refused(w, http.StatusTooManyRequests, "too many requests")
	default:
		if refuse != nil {
			if status, message := refuse(r); status != 0 {
				refused(w, status, message)
				return
			}
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answerLocked(w, r, path)
	}
}

func refused(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	answer(w, map[string]string{"message": message})
}

func answer(w io.Writer, v any) { _ = json.NewEncoder(w).Encode(v) }

func (i *fakeManager) answerLocked(w http.ResponseWriter, r *http.Request, path string) {
	now := time.Now()
	for _, s := range i.services {
		i.reconcileLocked(s, now)
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	i.calls[r.Method+" "+parts[0]]++
	switch {
	case path == "/info":
		answer(w, map[string]any{"Name": i.nodes[0].hostname, "ServerVersion": "20.10.24", "Swarm": map[string]any{
			"NodeID": i.nodes[0].id, "LocalNodeState": "active", "ControlAvailable": true, "Managers": 1, "Nodes": len(i.nodes),
		}})
	case path == "/nodes":
		list := []any{}
		for _, node := range i.nodes {
			list = append(list, map[string]any{"ID": node.id, "Description": map[string]any{"Hostname": node.hostname}})
		}
		answer(w, list)
	case path == "/services":
		i.listServices(w, filtersOf(r))
	case path == "/tasks":
		i.listTasks(w, filtersOf(r))
	case len(parts) == 3 && parts[0] == "containers" && parts[2] == "stats":
		i.sampled = now
		fmt.Fprintf(w, `{"read":%q,"cpu_stats":{"cpu_usage":{"total_usage":%d}},"memory_stats":{"usage":1048576}}`,
			now.Format(time.RFC3339Nano), now.UnixNano()/2)
	case len(parts) == 2 && parts[0] == "services":
		s := i.findLocked(parts[1])
		if s == nil {
			refused(w, http.StatusNotFound, "service "+parts[1]+" not found")
			return
		}
		answer(w, s.document())
	case len(parts) == 3 && parts[0] == "services" && parts[2] == "update" && r.Method == http.MethodPost:
		i.update(w, r, parts[1])
	default:
		refused(w, http.StatusNotFound, "page not found")
	}
}

func filtersOf(r *http.Request) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	if text := r.URL.Query().Get("filters"); text != "" {
		_ = json.Unmarshal([]byte(text), &found)
	}
	return found
}

func (s *fakeService) document() map[string]any {
	document := map[string]any{
		"ID": s.id, "Version": map[string]any{"Index": s.version}, "UpdatedAt": s.changed, "Spec": s.spec,
		"Endpoint": map[string]any{"Ports": []any{map[string]any{"Protocol": "tcp", "TargetPort": 8080, "PublishedPort": 30000, "PublishMode": "ingress"}}},
	}
	if s.previous != nil {
		document["PreviousSpec"] = s.previous
	}
	if s.updateStatus != nil {
		document["UpdateStatus"] = s.updateStatus
	}
	return document
}

func (i *fakeManager) listServices(w io.Writer, wanted map[string]map[string]bool) {
	list := []any{}
	for _, s := range i.services {
		named := len(wanted["name"]) == 0
		for prefix := range wanted["name"] {
			named = named || strings.HasPrefix(s.spec["Name"].(string), prefix)
		}
		if named {
			list = append(list, s.document())
		}
	}
	answer(w, list)
}

func (i *fakeManager) listTasks(w http.ResponseWriter, wanted map[string]map[string]bool) {
	for id := range wanted["service"] {
		if s := i.findLocked(id); s == nil {
			refused(w, http.StatusNotFound, "service "+id+" not found")
			return
		}
	}
	list := []any{}
	for _, s := range i.services {
		if len(wanted["service"]) > 0 && !wanted["service"][s.id] {
			continue
		}
		for _, t := range s.tasks {
			if len(wanted["desired-state"]) == 0 || wanted["desired-state"][t.desired] {
				list = append(list, s.taskDocument(t))
			}
		}
	}
	answer(w, list)
}

func (s *fakeService) taskDocument(t *fakeTask) map[string]any {
	status := map[string]any{"Timestamp": t.since, "State": t.state, "Message": "started"}
	if t.desired == "remove" {
		status["Timestamp"] = t.created
	}
	if t.err != "" {
		status["Err"] = t.err
	}
	if t.state == "running" {
		status["ContainerStatus"] = map[string]any{"ContainerID": "container-of-" + t.id, "PID": 1}
	}
	return map[string]any{
		"ID": t.id, "CreatedAt": t.created, "ServiceID": s.id, "Slot": t.slot, "NodeID": t.node, "Spec": t.spec,
		"Status": status, "DesiredState": t.desired,
		"NetworksAttachments": []any{
			map[string]any{"Network": map[string]any{"Spec": map[string]any{"Name": "ingress", "Ingress": true}}, "Addresses": []string{"10.0.0.7/24"}},
			map[string]any{"Network": map[string]any{"Spec": map[string]any{"Name": "shop_default"}}, "Addresses": []string{"10.0.1.7/24"}},
		},
	}
}

func (i *fakeManager) update(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refused(w, http.StatusBadRequest, err.Error())
		return
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	var spec map[string]any
	if err := decoder.Decode(&spec); err != nil {
		refused(w, http.StatusBadRequest, err.Error())
		return
	}
	s := i.findLocked(name)
	switch {
	case s == nil:
		refused(w, http.StatusNotFound, "service "+name+" not found")
		return
	case r.URL.Query().Get("registryAuthFrom") == "previous-spec" && s.previous == nil:
		refused(w, http.StatusInternalServerError, "service does not have a previous spec")
		return
	case r.URL.Query().Get("version") != strconv.FormatUint(s.version, 10):
		refused(w, http.StatusInternalServerError, "rpc error: code = Unknown desc = update out of sequence")
		return
	}
	i.updates = append(i.updates, string(body))
	i.index++
	s.previous, s.spec, s.version, s.changed, s.updateStatus = s.spec, spec, i.index, time.Now(), nil
	answer(w, map[string]any{"Warnings": nil})
}
