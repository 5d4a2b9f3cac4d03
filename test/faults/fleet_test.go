package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

// fleetFaults lists faults that affect every response of a fleet. why matches the error that hpad
// reports.
var fleetFaults = []fault{
	{"hangs", hang, "timeout|deadline|timed out|no response"},
	{"resets the connection during the response", reset, "connection reset|EOF"},
	{"trickles a byte a second", trickle, "timeout|deadline|timed out|no response"},
	{"returns a page with 200", respond(200, "text/html", loginPage), "invalid character|text/html|<"},
	{"returns 500", respond(500, "text/plain", "boom"), "nomad returned 500: boom"},
	{"returns 503", respond(503, "text/plain", "no leader"), "nomad returned 503: no leader"},
	{"returns 429 with Retry-After", respond(429, "text/plain", "slow down", "Retry-After", "1"), "nomad returned 429: slow down"},
	{"redirects", respond(302, "text/plain", "", "Location", "https://login.example.org/"), "302|redirect|login.example.org"},
	{"redirects to itself", respond(307, "text/plain", "", "Location", "/"), "307|redirect"},
	{"returns an empty body", respond(200, "application/json", ""), "EOF|nothing"},
	{"denies access", respond(403, "text/plain", "Permission denied"), "nomad returned 403: Permission denied"},
	{"returns other JSON", respond(200, "application/json", `{"a":[null]}`), "JSON|json|unmarshal|not what"},
	{"returns wrong types", respond(200, "application/json", `[{"ID":1,"JobModifyIndex":"many"}]`), "JSON|json|unmarshal|not what"},
	{"returns no jobs", respond(200, "application/json", `[]`, "X-Nomad-Index", "1"), "not found|no job|older|index"},
}

// writeFaults lists faults that affect only responses to writes.
var writeFaults = []fault{
	{"conflicts forever", respond(500, "text/plain", "Enforcing job modify index 1: job exists with conflicting job modify index: 2"), "Enforcing job modify index"},
	{"rejects every write", respond(400, "text/plain", "no, thanks"), "nomad returned 400: no, thanks"},
	{"hangs at every write", hang, "timeout|deadline|timed out|no response"},
}

// onWrites limits a misbehavior to scale requests.
func onWrites(do misbehavior) misbehavior {
	return func(f *front, w http.ResponseWriter, r *http.Request) {
		if scales(r) {
			do(f, w, r)
			return
		}
		f.honest.ServeHTTP(w, r)
	}
}

// TestFleet injects all fleet faults at the same time, each into its own fleet.
func TestFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, 3)
	fleets := 0
	add := func(f *front, more ...string) *victim {
		fleet := fmt.Sprintf("f%d", fleets)
		fleets++
		w.fleet(fleet, f, more...)
		v := &victim{world: w, front: f}
		v.name, v.number = w.autoscaler(fleet, "steady")
		return v
	}
	var tests []subtest
	for _, fault := range fleetFaults {
		tests = append(tests, add(newFront(t, w.nomad)).subtest(fault))
	}
	for _, fault := range writeFaults {
		v := add(newFront(t, w.nomad))
		tests = append(tests, subtest{fault.name, func(t *testing.T, p *program.Program) {
			v.withstand(t, p, func() {
				v.misbehave(onWrites(fault.do))
				v.Ask(v.number, v.Truth(v.number).Count/2) // causes a write
			}, v.heal, fault.why)
		}})
	}
	w.runFaults(t, append(append(tests, connectionFaults(t, w.nomad, add)...),
		subtest{"loses the response to an executed write", add(newFront(t, w.nomad)).lostResponse},
		subtest{"accepts a write without executing it", add(newFront(t, w.nomad)).ignoredWrites},
		subtest{"returns no jobs for one round", add(newFront(t, w.nomad)).emptyList}))
}

// lostResponse makes the fleet execute each write and then reset the connection. hpad must write
// once and record the write as executed.
func (v *victim) lostResponse(t *testing.T, p *program.Program) {
	v.misbehave(onWrites(func(f *front, w http.ResponseWriter, r *http.Request) {
		f.honest.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
	}))
	half := v.Truth(v.number).Count / 2
	v.Ask(v.number, half)
	v.recovers(t, p, half)
	p.With(t).Passes(v.name, 3)
	v.recovers(t, p, half)
	a := view(t, p, v.name)
	if a.Status.LastScaleTime.IsZero() || v.hit() == 0 {
		t.Errorf("got status %+v, want a last scale time", a.Status)
	}
	if output := p.With(t).Says("history", v.name); !strings.Contains(output, "outcome of the write is unknown") {
		t.Errorf("the history contains no lost response: %s", output)
	}
}

// ignoredWrites makes the fleet accept two writes without executing them. hpad must detect this,
// report an external writer and write again.
func (v *victim) ignoredWrites(t *testing.T, p *program.Program) {
	var ignored atomic.Int64
	v.misbehave(onWrites(func(f *front, w http.ResponseWriter, r *http.Request) {
		if ignored.Add(1) > 2 {
			f.honest.ServeHTTP(w, r)
			return
		}
		respond(200, "application/json", `{"EvalID":"","Index":1,"JobModifyIndex":1}`, "X-Nomad-Index", "1")(f, w, r)
	}))
	half := v.Truth(v.number).Count / 2
	v.Ask(v.number, half)
	v.recovers(t, p, half)
	p = p.With(t)
	wait.For(t, patience, "report of an external writer", func() (string, bool) {
		output := p.Says("describe", v.name)
		return output, strings.Contains(output, "ForeignWriter")
	})
	if got := ignored.Load(); got != 3 {
		t.Errorf("got %d writes, want two ignored writes and one more", got)
	}
}

// emptyList makes the fleet return empty lists for one round. hpad must not change the count.
func (v *victim) emptyList(t *testing.T, p *program.Program) {
	count := v.Truth(v.number).Count
	v.misbehave(func(f *front, w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/job/") {
			respond(404, "text/plain", "job not found")(f, w, r)
			return
		}
		respond(200, "application/json", `[]`, "X-Nomad-Index", "999999999")(f, w, r)
	})
	wait.For(t, patience, "read of the empty list", func() (string, bool) { return fmt.Sprint(v.hit()), v.hit() > 0 })
	p.With(t).Passes(v.name, 1)
	v.heal()
	for range 3 {
		p.With(t).Passes(v.name, 1)
		if now := v.Truth(v.number); now.Count != count || len(v.written(v.number)) > 0 {
			t.Errorf("got %+v after the empty list, want the count %d", now, count)
		}
	}
	v.Ask(v.number, count/2)
	v.recovers(t, p, count/2)
}
