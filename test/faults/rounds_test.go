package faults

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// TestRounds repeats the faults of all sources with a server. The use of goroutines, descriptors and
// memory must not grow from round to round.
func TestRounds(t *testing.T) {
	soak.Complete(t)
	const serversPerKind, warmUp, hits = 4, 1, 2
	w := newWorld(t, 60, 1)
	type server struct {
		*front
		faults []fault
	}
	var servers []server
	add := func(faults []fault, honest http.Handler, table string, query func(number int) string) {
		for range serversPerKind {
			source, f := fmt.Sprintf("r%d", len(servers)), newFront(t, honest)
			fmt.Fprintf(&w.config, "[sources.%s]\n"+table+"\n", source, f.address)
			w.autoscalerOf("steady", source, func(number int) string { return "query = '" + query(number) + "'" })
			servers = append(servers, server{f, faults})
		}
	}
	add(sourceFaults, w.prometheus, "kind = \"prometheus\"\nurl = \"http://%s\"\n"+lasting, sim.Load)
	add(documentFaults, w.prometheus, "kind = \"http\"\nurl = \"http://%s/loads\"\n"+lasting, sim.LoadInDocument)
	add(endpointFaults, exposition(w.prometheus), "kind = \"embedded\"\nscrape = [{ job = \"loads\", addresses = [%q], interval = \"100ms\" }]",
		func(number int) string { return fmt.Sprintf("load{service=%q}", sim.JobID(number)) })
	w.files = serversPerKind * filesOfChunks
	p := w.start()
	round := func(n int) {
		earlier := make([]int, len(servers))
		for i, s := range servers {
			earlier[i] = s.hit()
			s.misbehave(s.faults[(n*serversPerKind+i)%len(s.faults)].do)
		}
		for i, s := range servers {
			wait.For(t, patience, "requests during the fault", func() (string, bool) { return fmt.Sprint(s.hit() - earlier[i]), s.hit() >= earlier[i]+hits })
			s.heal()
		}
		wait.For(t, patience, "recovery of all autoscalers", func() (string, bool) {
			failing := p.Metric("hpad_autoscaler_failing", "")
			return fmt.Sprintf("%.0f fail", failing), failing == 0
		})
	}
	for n := range warmUp {
		round(n)
	}
	before := uses(t, p)
	before.Descriptors += w.files
	for n := range soak.Rounds(2, 300) {
		round(warmUp + n)
	}
	wantNoLeak(t, p, before)
	p.Stop()
}
