package faults

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

// endless sends series or jobs until the client disconnects.
func endless(_ *front, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	pour(w, r)
}

// bomb sends the same data as endless, compressed to about a thousandth of its size.
func bomb(_ *front, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	pour(zipped, r)
	_ = zipped.Close()
}

func pour(to io.Writer, r *http.Request) {
	begin, series := `{"status":"success","data":{"resultType":"vector","result":[`, fmt.Sprintf(`{"metric":{"a":"%%d%s"},"value":[%s,"1"]},`, strings.Repeat("x", 1000), r.FormValue("time"))
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		begin, series = "[", `{"ID":"%d`+strings.Repeat("x", 1000)+`","Name":"x","JobModifyIndex":1},`
	}
	if _, err := io.WriteString(to, begin); err != nil {
		return
	}
	for n := 0; r.Context().Err() == nil; n += 100 {
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, series, n+i)
		}
		if _, err := io.WriteString(to, text.String()); err != nil {
			return
		}
	}
}

// TestLarge makes sources and fleets send responses that never end. hpad must report an error and
// limit its memory use.
func TestLarge(t *testing.T) {
	w := newWorld(t, 40, 2)
	type large struct {
		fault
		*victim
	}
	var all []large
	for name, do := range map[string]misbehavior{"gigabytes": endless, "a gzip bomb": bomb} {
		source := &victim{world: w, front: newFront(t, w.prometheus)}
		w.source(fmt.Sprintf("s%d", len(all)), source.front)
		source.name, source.number = w.autoscaler("steady", fmt.Sprintf("s%d", len(all)))
		all = append(all, large{fault{"source returns " + name, do, "timeout of 1s|more than|room|budget|Content-Encoding"}, source})
		fleet := &victim{world: w, front: newFront(t, w.nomad)}
		w.fleet(fmt.Sprintf("f%d", len(all)), fleet.front)
		fleet.name, fleet.number = w.autoscaler(fmt.Sprintf("f%d", len(all)), "steady")
		all = append(all, large{fault{"fleet returns " + name, do, "timeout|deadline|more than|large|cut off"}, fleet})
	}
	w.watched(t, func(p *program.Program) {
		for _, one := range all { // sequential, because each case keeps a CPU busy
			t.Run(one.fault.name, func(t *testing.T) {
				one.victim.subtest(one.fault).run(t, p)
				if now := uses(t, p); now.Resident > 1<<30 {
					t.Errorf("memory of hpad = %d MiB, want at most 1024", now.Resident>>20)
				}
			})
		}
	})
}
