package docker

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/test/docker/dockertest"
)

// ownFields matches the "docker inspect" fields that differ between replicas: IDs, times,
// processes, addresses and assigned ports. IDs, names and anonymous volumes inside other fields
// are masked.
var ownFields = regexp.MustCompile(`^(` + strings.Join([]string{
	`Id`, `Created`, `ExecIDs.*`,
	`State\.(Pid|StartedAt|FinishedAt)`, `State\.Health\.(Log.*|FailingStreak)`,
	`GraphDriver\.Data\..*`,
	`NetworkSettings\.(SandboxID|SandboxKey|EndpointID|IPAddress|GlobalIPv6Address|MacAddress)`,
	`NetworkSettings\.Networks\.[^.]+\.(EndpointID|IPAddress|GlobalIPv6Address|MacAddress)`,
	`NetworkSettings\.Ports\..*\.HostPort`,
	`Config\.Labels\.com\.docker\.compose\.container-number`,
	`Config\.Labels\.io\.hpad\..*`,
	// Compose sets this label only on a replica that it has recreated.
	`Config\.Labels\.com\.docker\.compose\.replace`,
}, "|") + `)$`)

// unordered matches the lists without a stable order.
var unordered = regexp.MustCompile(`^(Config\.Env|HostConfig\.(Binds|Ulimits)|NetworkSettings\.Networks\.[^.]+\.Aliases)$`)

// anonymous matches the name of an anonymous volume.
var anonymous = regexp.MustCompile(`^[0-9a-f]{64}$`)

// inspect returns the "docker inspect" fields by path, without ownFields, and the names of the
// anonymous volumes.
func inspect(t testing.TB, e *dockertest.Engine, name string) (fields map[string]string, volumes []string) {
	t.Helper()
	inspected, raw, err := e.Client.ContainerInspectWithRaw(t.Context(), name, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range inspected.Mounts {
		if anonymous.MatchString(m.Name) {
			volumes = append(volumes, m.Name)
			raw = []byte(strings.ReplaceAll(string(raw), m.Name, "{anonymous}"))
		}
	}
	text := strings.NewReplacer(inspected.ID, "{id}", inspected.ID[:12], "{short}", strings.TrimPrefix(inspected.Name, "/"), "{name}").Replace(string(raw))
	var parsed map[string]any
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	parsed["Mounts"] = byPath(parsed["Mounts"], "Destination")
	if host, ok := parsed["HostConfig"].(map[string]any); ok {
		host["Mounts"] = byPath(host["Mounts"], "Target")
	}
	fields = map[string]string{}
	flatten(fields, "", parsed)
	for path := range fields {
		if ownFields.MatchString(path) {
			delete(fields, path)
		}
	}
	return fields, volumes
}

// byPath converts a list of mounts to a map. It omits the source of an anonymous volume, because
// Compose sets it if a recreated replica inherits the volume.
func byPath(mounts any, key string) map[string]any {
	list, _ := mounts.([]any)
	found := map[string]any{}
	for _, m := range list {
		if m, ok := m.(map[string]any); ok {
			if key == "Target" && m["Source"] == "{anonymous}" {
				delete(m, "Source")
			}
			found[fmt.Sprint(m[key])] = m
		}
	}
	return found
}

// flatten adds the scalars in a JSON value to fields, by path.
func flatten(fields map[string]string, path string, value any) {
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			flatten(fields, join(name), v)
		}
		if len(value) == 0 {
			fields[path] = "{}"
		}
	case []any:
		if unordered.MatchString(path) {
			slices.SortFunc(value, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for i, v := range value {
			flatten(fields, join(strconv.Itoa(i)), v)
		}
		if len(value) == 0 {
			fields[path] = "[]"
		}
	default:
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte(err.Error())
		}
		fields[path] = string(text)
	}
}

// compare checks that two replicas have equal fields, that they appear equal from inside the
// container, and that their anonymous volumes are separate. It returns the number of compared
// fields.
func compare(t testing.TB, e *dockertest.Engine, original, replica string) int {
	t.Helper()
	want, wantVolumes := inspect(t, e, original)
	got, gotVolumes := inspect(t, e, replica)
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("fields of %s (+) and %s (-) differ:\n%s", replica, original, difference)
	}
	if len(gotVolumes) != len(wantVolumes) {
		t.Errorf("anonymous volumes of %s = %d, want %d as in %s", replica, len(gotVolumes), len(wantVolumes), original)
	}
	for _, volume := range gotVolumes {
		if slices.Contains(wantVolumes, volume) {
			t.Errorf("%s and %s share the anonymous volume %s", replica, original, volume)
		}
	}
	if difference := cmp.Diff(workerState(t, e, original), workerState(t, e, replica)); difference != "" {
		t.Errorf("states of %s (+) and %s (-) differ:\n%s", replica, original, difference)
	}
	return len(want)
}

// workerState returns the state that a worker prints, without addresses and masked like the fields
// of inspect.
func workerState(t testing.TB, e *dockertest.Engine, name string) map[string]string {
	t.Helper()
	inspected, err := e.Client.ContainerInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(inspected.ID, "{id}", inspected.ID[:12], "{short}", name, "{name}").
		Replace(e.CLI(t, "exec", name, "/worker", "state"))
	var state map[string]any
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatalf("state of %s: %v: %s", name, err, text)
	}
	if addresses, ok := state["addresses"].([]any); ok {
		state["addresses"] = len(addresses)
	}
	fields := map[string]string{}
	flatten(fields, "", state)
	return fields
}
