package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/live"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// hostile is a string that could start new lines or cells, or control a terminal.
const hostile = "\nFORGED\n\tFORGED\fFORGED\v\r\x1b[2J\u009b2J\u0085\u2028\u202eFORGED\x7f\u200b"

// poison appends hostile to every string in a value.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() && v.Type() == reflect.TypeFor[string]() && v.String() != "" {
			v.SetString(v.String() + hostile)
		}
	case reflect.Pointer, reflect.Interface:
		poison(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			poison(field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			poisoned, value := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
			poisoned.Set(key)
			value.Set(v.MapIndex(key))
			poison(poisoned)
			poison(value)
			v.SetMapIndex(key, reflect.Value{})
			v.SetMapIndex(poisoned, value)
		}
	}
}

// poisoned returns a copy of a value with hostile in every string.
func poisoned[T any](t *testing.T, value T) T {
	t.Helper()
	encoded, err := json.Marshal(value)
	var made T
	if err := errors.Join(err, json.Unmarshal(encoded, &made)); err != nil {
		t.Fatal(err)
	}
	poison(reflect.ValueOf(&made))
	return made
}

// serveDaemon serves a daemon and returns its socket.
func serveDaemon(t *testing.T, daemon api.Daemon) string {
	t.Helper()
	socket := filepath.Join(openDir(t), "hpad.sock")
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	server := api.NewServer(api.NewHandler(daemon, prometheus.NewRegistry(), api.Full), nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return socket
}

// passes returns a recording and a policy whose names end with a text.
func passes(text string) (simulate.Recording, []simulate.Policy) {
	recording := simulate.Recording{Name: "checkout" + text, Origin: simulate.FromGraphs, Metrics: []string{"jobs" + text}, Step: time.Minute}
	recording.Notes = []simulate.Note{{Time: now, Text: "a note" + text}}
	for i := range int32(20) {
		recording.Ticks = append(recording.Ticks, simulate.Tick{
			Time: now.Add(time.Duration(i) * time.Minute), Replicas: 2 + i/10, Desired: 2 + (i+1)/10, Observed: 2, Ready: 2, Readings: []simulate.Reading{{Milli: 30_000}},
		})
	}
	spec := policy.Default(policy.Spec{MaxReplicas: 9, Metrics: []policy.MetricSpec{{
		Type: policy.ExternalMetric, Name: "jobs" + text, Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(10_000))},
	}}})
	return recording, []simulate.Policy{{Label: "active" + text, Spec: spec}}
}

// TestHostileText adds control characters to all strings of a daemon. Each command must print the
// same number of lines as without them, and only printable characters. JSON output preserves the
// strings.
func TestHostileText(t *testing.T) {
	plain, odd := scenarios(), scenarios()
	plain.Alive.RefusedReload = "hpad.toml: broken"
	plain.Alive.Unevaluated = []api.Problem{{Subject: "autoscaler web", Message: "read the target: timeout"}}
	plain.Output, odd.Output = "two\nlines\n", "two"+strings.ReplaceAll(hostile, "\n", "")+"\nlines\n"
	plain.Lacks = "member a does not respond"
	odd.Alive, odd.Listed, odd.List, odd.State = poisoned(t, plain.Alive), poisoned(t, plain.Listed), poisoned(t, plain.List), poisoned(t, plain.State)
	odd.Targets, odd.Recorded, odd.Verified = poisoned(t, plain.Targets), poisoned(t, plain.Recorded), poisoned(t, plain.Verified)
	odd.Paused, odd.Changes, odd.Lacks = poisoned(t, plain.Paused), poisoned(t, plain.Changes), poisoned(t, plain.Lacks)
	plain.Passes, plain.Simulated = passes("")
	odd.Passes, odd.Simulated = passes(hostile)
	sockets := []string{serveDaemon(t, plain), serveDaemon(t, odd)}
	run := func(n int, args ...string) (string, string) {
		var out, failed bytes.Buffer
		run(t.Context(), append(args, "--socket", sockets[n]), streams{in: strings.NewReader(""), out: &out, err: &failed})
		return out.String(), failed.String()
	}
	check := func(args []string, text, without string) {
		t.Helper()
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("hpad %q wrote %q", args, text)
				return
			}
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
				t.Errorf("hpad %q wrote the line %q", args, line)
			}
		}
		if strings.Count(text, "\n") != strings.Count(without, "\n") {
			t.Errorf("hpad %q wrote different lines with hostile text:\n%s\nwithout:\n%s", args, text, without)
		}
	}
	commands := [][]string{
		{"get"},
		{"get", "-o", "wide"},
		{"get", "-o", "name"},
		{"history"},
		{"history", "-o", "wide"},
		{"history", "--verify"},
		{"cluster"},
		{"health"},
		{"health", "--strict"},
		{"reload"},
		{"reload", "--dry-run"},
		{"pause", "--all"},
		{"resume", "--all"},
	}
	for _, args := range commands {
		without, withoutErr := run(0, args...)
		out, failed := run(1, args...)
		check(args, out, without)
		check(args, failed, withoutErr)
	}
	for n, view := range plain.List {
		for _, command := range []string{"get", "describe", "explain", "history", "simulate", "evaluate", "pause", "resume", "logs"} {
			without, _ := run(0, command, view.Name)
			out, failed := run(1, command, odd.List[n].Name)
			check([]string{command, view.Name}, out, without)
			check([]string{command, view.Name}, failed, failed)
		}
		_, failed := run(1, "describe", odd.List[n].Name+"/")
		check([]string{"describe", view.Name + "/"}, failed, failed)
	}
	shown := show.Clean(odd.List[0].Reference)
	if out, failed := run(1, "describe", shown); !strings.Contains(out, shown) {
		t.Errorf("describe of the displayed target %q failed: %s", shown, failed)
	}
	name := odd.List[0].Name
	out, _ := run(1, "get", name, "-o", "json")
	var view api.Autoscaler
	if err := json.Unmarshal([]byte(out), &view); err != nil || view.Name != name {
		t.Errorf("name in JSON = %q, %v, want %q", view.Name, err, name)
	}
}

// TestHostileErrors checks that control characters in errors and in the findings of a live check
// are not printed.
func TestHostileErrors(t *testing.T) {
	var out, failed bytes.Buffer
	problems, err := writeFindings(streams{out: &out}, []live.Finding{
		{Key: "fleets.prod" + hostile, Text: "2 targets" + hostile}, {Key: "sources.prom", Text: "down" + hostile, Problem: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	report(&failed, hint.With(&checkError{errs: append(problems, errors.New("second"))}, "hint"+hostile))
	notice(&failed, "warning", "%s", hostile)
	for text, lines := range map[string]int{out.String(): 1, failed.String(): 4} {
		if strings.Count(text, "\n") != lines || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("wrote %q, want %d printable lines", text, lines)
		}
	}
}
