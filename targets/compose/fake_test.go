package compose

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/pkg/stringid"
	"github.com/docker/go-connections/nat"
	"github.com/docker/go-units"

	"github.com/hpad/hpad/targets/targettest"
)

// fakeEngine implements the calls that the fleet makes, and the operations of Compose. Names,
// labels, aliases and errors are as observed on engines 20.10 and 28.5.
type fakeEngine struct {
	server *httptest.Server
	rival  targettest.Rival

	mu         sync.Mutex
	version    string
	containers []*fakeContainer
	networks   map[string]bool
	volumes    map[string]bool
	images     map[string]string // IDs by name
	// calls counts requests by method and path without IDs.
	calls   map[string]int
	sampled time.Time

	throttle, broken bool
	hang             chan struct{}
	// slow maps services to their stop times. refuseStart returns the error of a start. refuse
	// returns the status and error of a call.
	slow        map[string]time.Duration
	refuseStart func(c *fakeContainer) string
	refuse      func(r *http.Request) (int, string)
	order       []string // hooks, stops and removals, by name
	// exit returns the exit code of a hook. execs maps IDs to hooks.
	exit  func(command []string) int
	execs map[string]*fakeExec
	// happened lists the events. more is closed and replaced with each event.
	happened []events.Message
	// brokenOff is closed to break the connections that follow events.
	brokenOff chan struct{}
	more      chan struct{}
}

type fakeContainer struct {
	container.InspectResponse
	created time.Time
	started time.Time
	health  string
	files   map[string]file
	busy    bool
}

type fakeExec struct {
	container *fakeContainer
	options   container.ExecOptions
	looks     int
}

// service contains the settings of a service in a Compose file.
type service struct {
	project, name string
	hash          string
	container     string // container_name
	image         string
	ports         nat.PortMap
	mode          container.NetworkMode
	networks      map[string]*network.EndpointSettings
	dependencies  string
	labels        map[string]string
	files         map[string]file
	healthcheck   bool
	host          container.HostConfig
	config        container.Config
}

func newFakeEngine(t testing.TB) *fakeEngine {
	i := &fakeEngine{
		version: "1.51", networks: map[string]bool{}, volumes: map[string]bool{},
		images: map[string]string{"bb:1": "sha256:" + strings.Repeat("b1", 32)},
		calls:  map[string]int{}, slow: map[string]time.Duration{}, execs: map[string]*fakeExec{}, more: make(chan struct{}), brokenOff: make(chan struct{}),
	}
	i.server = httptest.NewServer(i)
	t.Cleanup(i.server.Close)
	t.Cleanup(func() { i.setHang(false) })
	return i
}

// changesLocked returns the number of calls so far that change something.
func (i *fakeEngine) changesLocked() int {
	changes := 0
	for call, n := range i.calls {
		if !strings.HasPrefix(call, "GET ") && !strings.HasPrefix(call, "HEAD ") {
			changes += n
		}
	}
	return changes
}

func (i *fakeEngine) host() string { return "tcp://" + i.server.Listener.Addr().String() }

func (i *fakeEngine) setHang(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case on && i.hang == nil:
		i.hang = make(chan struct{})
	case !on && i.hang != nil:
		close(i.hang)
		i.hang = nil
	}
}

func (i *fakeEngine) with(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// of returns the containers of a service, by number.
func (i *fakeEngine) of(project, service string) []*fakeContainer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.replicas(project, service)
}

func (i *fakeEngine) replicas(project, service string) []*fakeContainer {
	var found []*fakeContainer
	for _, c := range i.containers {
		if c.Config.Labels[labelProject] == project && c.Config.Labels[labelService] == service {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *fakeContainer) int { return a.number() - b.number() })
	return found
}

func (c *fakeContainer) number() int {
	n, _ := strconv.Atoi(c.Config.Labels[labelNumber])
	return n
}

// up imitates "docker compose up -d --no-recreate --scale SERVICE=n".
func (i *fakeEngine) up(s service, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.networks[s.project+"_default"] = true
	there := i.replicas(s.project, s.name)
	next := 1
	for _, c := range there {
		next = max(next, c.number()+1)
	}
	for len(there) > n {
		i.drop(there[len(there)-1])
		there = there[:len(there)-1]
	}
	for count := len(there); count < n; count++ {
		c := s.replica(next)
		c.Image = i.images[c.Config.Image]
		c.Config.Labels[labelImage] = c.Image
		c.files = maps.Clone(s.files)
		i.add(c)
		c.start()
		if s.healthcheck {
			c.health = container.Healthy
		}
		next++
	}
}

func (i *fakeEngine) drop(gone *fakeContainer) {
	i.containers = slices.DeleteFunc(i.containers, func(c *fakeContainer) bool { return c == gone })
}

func (i *fakeEngine) add(c *fakeContainer) {
	c.ID = stringid.GenerateRandomID()
	if c.Config.Hostname == "" && !c.HostConfig.NetworkMode.IsHost() {
		c.Config.Hostname = c.ID[:12]
	}
	for _, endpoint := range c.NetworkSettings.Networks {
		if versions.LessThan(i.version, "1.45") {
			endpoint.Aliases = append(endpoint.Aliases, c.ID[:12])
		}
		endpoint.IPAddress, endpoint.EndpointID, endpoint.MacAddress = "172.18.0."+strconv.Itoa(2+len(i.containers)), stringid.GenerateRandomID(), "02:42:ac:12:00:02"
	}
	if c.created.IsZero() {
		c.created = time.Now()
	}
	c.State = &container.State{Status: container.StateCreated, StartedAt: "0001-01-01T00:00:00Z", FinishedAt: "0001-01-01T00:00:00Z"}
	i.containers = append(i.containers, c)
}

func (c *fakeContainer) start() {
	c.started = time.Now()
	c.State.Status, c.State.StartedAt = container.StateRunning, c.started.UTC().Format(time.RFC3339Nano)
	c.State.ExitCode, c.State.OOMKilled, c.State.Error = 0, false, ""
	if c.Config.Healthcheck != nil {
		c.health = container.Starting
	}
}

func (c *fakeContainer) end(code int) {
	c.State.Status, c.State.ExitCode = container.StateExited, code
	c.State.FinishedAt = time.Now().UTC().Format(time.RFC3339Nano)
}

// halt imitates "docker compose stop": running containers exit with the given code.
func (i *fakeEngine) halt(project, service string, code int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.replicas(project, service) {
		if c.State.Status == container.StateRunning {
			i.emit(c, events.ActionKill, "15")
			c.end(code)
			i.emit(c, events.ActionDie, "")
		}
	}
}

// replica returns a container as Compose creates it.
func (s service) replica(number int) *fakeContainer {
	name := s.container
	if name == "" {
		name = s.project + "-" + s.name + "-" + strconv.Itoa(number)
	}
	host, config := s.host, s.config
	host.NetworkMode, host.PortBindings = s.mode, s.ports
	if s.mode == "" {
		host.NetworkMode = container.NetworkMode(s.project + "_default")
	}
	config.Image = s.image
	if s.image == "" {
		config.Image = "bb:1"
	}
	config.Labels = map[string]string{
		labelProject: s.project, labelService: s.name, labelNumber: strconv.Itoa(number), labelOneoff: "False",
		labelHash: s.hash, labelDependencies: s.dependencies,
	}
	if s.hash == "" {
		config.Labels[labelHash] = "hash-1"
	}
	maps.Copy(config.Labels, s.labels)
	if s.healthcheck {
		config.Healthcheck = &container.HealthConfig{Test: []string{"CMD", "true"}}
	}
	networks := map[string]*network.EndpointSettings{}
	for of, endpoint := range s.networks {
		copied := endpoint.Copy()
		copied.Aliases = append([]string{name, s.name}, copied.Aliases...)
		networks[of] = copied
	}
	if s.networks == nil && s.mode == "" {
		networks[s.project+"_default"] = &network.EndpointSettings{Aliases: []string{name, s.name}}
	}
	return &fakeContainer{InspectResponse: container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{Name: "/" + name, HostConfig: &host},
		Config:            &config, NetworkSettings: &container.NetworkSettings{Networks: networks},
	}}
}

func (c *fakeContainer) summary() container.Summary {
	s := container.Summary{
		ID: c.ID, Names: []string{c.Name}, Image: c.Config.Image, ImageID: c.Image, Created: c.created.Unix(), Labels: c.Config.Labels, State: c.State.Status,
		NetworkSettings: &container.NetworkSettingsSummary{Networks: c.NetworkSettings.Networks}, Ports: []container.Port{{PrivatePort: 80, Type: "tcp"}},
	}
	switch c.State.Status {
	case container.StateRunning:
		s.Status = "Up " + units.HumanDuration(time.Since(c.started))
		switch c.health {
		case "":
		case container.Starting:
			s.Status += " (health: starting)"
		default:
			s.Status += " (" + c.health + ")"
		}
	case container.StateExited:
		s.Status = fmt.Sprintf("Exited (%d) 2 seconds ago", c.State.ExitCode)
	case container.StateRestarting:
		s.Status = fmt.Sprintf("Restarting (%d) 1 second ago", c.State.ExitCode)
	case container.StateCreated:
		s.Status = "Created"
	}
	return s
}

func answerError(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": fmt.Sprintf(format, args...)})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (i *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) > 1 && strings.HasPrefix(parts[0], "v1.") {
		parts = parts[1:]
	}
	kind := r.Method + " " + parts[0]
	if len(parts) > 1 {
		kind += "/" + parts[len(parts)-1]
	}
	if len(parts) == 2 && r.Method == http.MethodDelete {
		kind = "DELETE " + parts[0]
	}
	if kind == "GET events" && r.URL.Query().Get("until") == "" {
		kind = "GET future events" // not part of a reading
	}
	i.rival.Meet(kind)
	i.mu.Lock()
	i.calls[kind]++
	hang, throttle, broken, refuse := i.hang, i.throttle, i.broken, i.refuse
	i.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	if broken {
		panic(http.ErrAbortHandler)
	}
	if throttle {
		answerError(w, http.StatusTooManyRequests, "too many requests")
		return
	}
	if refuse != nil {
		if status, text := refuse(r); status != 0 {
			answerError(w, status, "%s", text)
			return
		}
	}
	switch parts[0] {
	case "_ping":
		i.mu.Lock()
		w.Header().Set("Api-Version", i.version)
		i.mu.Unlock()
		w.Header().Set("Ostype", "linux")
	case "version":
		answer(w, http.StatusOK, map[string]string{"Version": "28.5.2", "ApiVersion": i.version})
	case "containers":
		i.serveContainers(w, r, parts[1:])
	case "events":
		i.serveEvents(w, r)
	default:
		i.serveOthers(w, r, parts)
	}
}

func (i *fakeEngine) serveOthers(w http.ResponseWriter, r *http.Request, parts []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	name := parts[1]
	switch parts[0] {
	case "exec":
		i.serveExec(w, i.execs[name], parts[2])
	case "images":
		name = strings.Join(parts[1:len(parts)-1], "/")
		for of, id := range i.images {
			if name == of || name == id {
				answer(w, http.StatusOK, map[string]string{"Id": id})
				return
			}
		}
		answerError(w, http.StatusNotFound, "No such image: %s", name)
	case "networks":
		if !i.networks[name] {
			answerError(w, http.StatusNotFound, "network %s not found", name)
			return
		}
		if len(parts) == 2 {
			answer(w, http.StatusOK, map[string]string{"Name": name})
			return
		}
		var body network.ConnectOptions
		_ = json.NewDecoder(r.Body).Decode(&body)
		c := i.find(body.Container)
		if c == nil {
			answerError(w, http.StatusNotFound, "No such container: %s", body.Container)
			return
		}
		body.EndpointConfig.Aliases = append(body.EndpointConfig.Aliases, c.ID[:12])
		c.NetworkSettings.Networks[name] = body.EndpointConfig
	case "volumes":
		if !i.volumes[name] {
			answerError(w, http.StatusNotFound, "get %s: no such volume", name)
			return
		}
		answer(w, http.StatusOK, map[string]string{"Name": name})
	}
}

// emit sends an event of a container. The lock must be held.
func (i *fakeEngine) emit(c *fakeContainer, action events.Action, signal string) {
	attributes := maps.Clone(c.Config.Labels)
	attributes["signal"] = signal
	i.happened = append(i.happened, events.Message{
		Type: events.ContainerEventType, Action: action, TimeNano: time.Now().UnixNano(), Actor: events.Actor{ID: c.ID, Attributes: attributes},
	})
	close(i.more)
	i.more = make(chan struct{})
}

// serveEvents sends past and future events that match the filters.
func (i *fakeEngine) serveEvents(w http.ResponseWriter, r *http.Request) {
	var filters struct{ Label, Event map[string]bool }
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &filters)
	since := eventStamp(r.URL.Query().Get("since"))
	_ = http.NewResponseController(w).Flush()
	i.mu.Lock()
	broken := i.brokenOff
	i.mu.Unlock()
	for told := 0; ; {
		i.mu.Lock()
		found, more := slices.Clone(i.happened[told:]), i.more
		i.mu.Unlock()
		for _, event := range found {
			label := labelProject + "=" + event.Actor.Attributes[labelProject]
			at := time.Unix(0, event.TimeNano)
			if (filters.Label[label] || filters.Label[labelProject]) && filters.Event[string(event.Action)] && !at.Before(since) {
				_ = json.NewEncoder(w).Encode(event)
			}
		}
		told += len(found)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-broken:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// eventStamp parses a timestamp in seconds.
func eventStamp(text string) time.Time {
	whole, rest, _ := strings.Cut(text, ".")
	seconds, _ := strconv.ParseInt(whole, 10, 64)
	nanoseconds, _ := strconv.ParseInt(rest, 10, 64)
	return time.Unix(seconds, nanoseconds)
}

// serveExec starts a command, or returns its state. A command runs for two inspections.
func (i *fakeEngine) serveExec(w http.ResponseWriter, exec *fakeExec, what string) {
	if what == "start" {
		i.order = append(i.order, "run "+strings.Join(exec.options.Cmd, " ")+" in "+strings.TrimPrefix(exec.container.Name, "/"))
		return
	}
	exec.looks++
	state := container.ExecInspect{Running: exec.looks < 2}
	if !state.Running && i.exit != nil {
		state.ExitCode = i.exit(exec.options.Cmd)
	}
	answer(w, http.StatusOK, state)
}

func (i *fakeEngine) find(id string) *fakeContainer {
	for _, c := range i.containers {
		if c.ID == id || c.Name == "/"+id {
			return c
		}
	}
	return nil
}

func (i *fakeEngine) serveContainers(w http.ResponseWriter, r *http.Request, parts []string) {
	switch parts[0] {
	case "json":
		i.list(w, r)
		return
	case "create":
		i.create(w, r)
		return
	}
	i.mu.Lock()
	c := i.find(parts[0])
	i.mu.Unlock()
	if c == nil {
		answerError(w, http.StatusNotFound, "No such container: %s", parts[0])
		return
	}
	what := ""
	if len(parts) > 1 {
		what = parts[1]
	}
	switch {
	case r.Method == http.MethodDelete:
		i.remove(w, r, c)
	case what == "json":
		i.mu.Lock()
		inspected, base, state := c.InspectResponse, *c.ContainerJSONBase, *c.State
		state.Running = state.Status == container.StateRunning
		if c.health != "" {
			state.Health = &container.Health{Status: c.health, Log: []*container.HealthcheckResult{{End: c.started, ExitCode: 0}}}
		}
		base.State, inspected.ContainerJSONBase = &state, &base
		text, _ := json.Marshal(inspected)
		i.mu.Unlock()
		_, _ = w.Write(text)
	case what == "start":
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.refuseStart != nil {
			if why := i.refuseStart(c); why != "" {
				answerError(w, http.StatusInternalServerError, "%s", why)
				return
			}
		}
		c.start()
		i.emit(c, events.ActionStart, "")
		if c.health != "" {
			c.health = container.Healthy // checks take no time
		}
		w.WriteHeader(http.StatusNoContent)
	case what == "stop":
		i.stop(w, r, c)
	case what == "archive":
		i.archive(w, r, c)
	case what == "stats":
		i.stats(w, c)
	case what == "exec":
		i.mu.Lock()
		defer i.mu.Unlock()
		exec := &fakeExec{container: c}
		_ = json.NewDecoder(r.Body).Decode(&exec.options)
		id := stringid.GenerateRandomID()
		i.execs[id] = exec
		answer(w, http.StatusCreated, map[string]string{"Id": id})
	}
}

func (i *fakeEngine) list(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var filters struct{ Label map[string]bool }
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &filters)
	var found []container.Summary
	for _, c := range slices.Backward(i.containers) { // the newest first
		matches := true
		for label := range filters.Label {
			name, value, valued := strings.Cut(label, "=")
			got, there := c.Config.Labels[name]
			matches = matches && there && (!valued || got == value)
		}
		if matches {
			found = append(found, c.summary())
		}
	}
	answer(w, http.StatusOK, found)
}

func (i *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var body container.CreateRequest
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Config == nil || body.Image == "" {
		answerError(w, http.StatusBadRequest, "no command specified")
		return
	}
	name := r.URL.Query().Get("name")
	if rival := i.find(name); rival != nil {
		answerError(w, http.StatusConflict, "Conflict. The container name %q is already in use by container %q. You have to remove (or rename) that container to be able to reuse that name.", "/"+name, rival.ID)
		return
	}
	if body.HostConfig.NetworkMode.IsHost() && body.Hostname != "" {
		answerError(w, http.StatusBadRequest, "conflicting options: hostname and the network mode")
		return
	}
	image, known := i.images[body.Image]
	if !known {
		for _, id := range i.images {
			if id == body.Image {
				image = id
			}
		}
	}
	if image == "" {
		answerError(w, http.StatusNotFound, "No such image: %s", body.Image)
		return
	}
	c := &fakeContainer{InspectResponse: container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{Name: "/" + name, Image: image, HostConfig: body.HostConfig},
		Config:            body.Config, NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{}},
	}}
	if body.NetworkingConfig != nil {
		if len(body.NetworkingConfig.EndpointsConfig) > 1 && versions.LessThan(i.version, "1.44") {
			answerError(w, http.StatusBadRequest, "Container cannot be connected to network endpoints: %v", slices.Sorted(maps.Keys(body.NetworkingConfig.EndpointsConfig)))
			return
		}
		c.NetworkSettings.Networks = body.NetworkingConfig.EndpointsConfig
	}
	i.add(c)
	answer(w, http.StatusCreated, container.CreateResponse{ID: c.ID})
}

func (i *fakeEngine) stop(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	i.mu.Lock()
	wait := i.slow[c.Config.Labels[labelService]]
	i.order = append(i.order, "stop "+strings.TrimPrefix(c.Name, "/"))
	if c.State.Status != container.StateRunning {
		i.mu.Unlock()
		w.WriteHeader(http.StatusNotModified) // without an event
		return
	}
	c.busy = true
	i.emit(c, events.ActionKill, "15")
	i.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	c.end(143)
	i.emit(c, events.ActionDie, "")
	w.WriteHeader(http.StatusNoContent)
}

func (i *fakeEngine) remove(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c.State.Status == container.StateRunning && r.URL.Query().Get("force") == "" {
		answerError(w, http.StatusConflict, "You cannot remove a running container %s. Stop the container before attempting removal or force remove", c.ID)
		return
	}
	i.order = append(i.order, "remove "+strings.TrimPrefix(c.Name, "/")+" v="+r.URL.Query().Get("v"))
	i.drop(c)
	w.WriteHeader(http.StatusNoContent)
}

func (i *fakeEngine) archive(w http.ResponseWriter, r *http.Request, c *fakeContainer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := r.URL.Query().Get("path")
	if r.Method == http.MethodPut {
		archive := tar.NewReader(r.Body)
		for {
			header, err := archive.Next()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(archive)
			if c.files == nil {
				c.files = map[string]file{}
			}
			name := path.Join(at, header.Name)
			c.files[name] = file{Path: name, Mode: header.Mode, UID: header.Uid, GID: header.Gid, Data: data}
		}
	}
	var body bytes.Buffer
	archive := tar.NewWriter(&body)
	found := false
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		if name != at && !strings.HasPrefix(name, at+"/") {
			continue
		}
		found = true
		one := c.files[name]
		_ = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(strings.TrimPrefix(name, path.Dir(at)), "/"), Mode: one.Mode, Uid: one.UID, Gid: one.GID, Size: int64(len(one.Data))})
		_, _ = archive.Write(one.Data)
	}
	if !found {
		answerError(w, http.StatusNotFound, "Could not find the file %s in container %s", at, c.ID)
		return
	}
	_ = archive.Close()
	stat, _ := json.Marshal(container.PathStat{Name: path.Base(at)})
	w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(stat))
	_, _ = w.Write(body.Bytes())
}

func (i *fakeEngine) stats(w http.ResponseWriter, c *fakeContainer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sampled = time.Now()
	answer(w, http.StatusOK, container.StatsResponse{
		Read:        time.Now(),
		CPUStats:    container.CPUStats{CPUUsage: container.CPUUsage{TotalUsage: uint64(time.Since(c.started)) / 4}},
		MemoryStats: container.MemoryStats{Usage: 64 << 20, Stats: map[string]uint64{"inactive_file": 16 << 20}},
	})
}
