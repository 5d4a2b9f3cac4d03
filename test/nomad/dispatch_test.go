package nomad

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// spool is a queue of finite work: each child of the job "encode" moves a file from "in" to "work",
// and to "done" when the file "go" exists.
type spool struct {
	t     *testing.T
	agent *nomadtest.Agent
	load  *world.Load
	dir   string
}

const encode = `
for f in in/*; do
	if [ -e "$f" ] && mv "$f" "work/$$"; then
		until [ -e go ]; do sleep 0.1; done
		mv "work/$$" "done/$NOMAD_META_tenant-$$-$(cat "$NOMAD_TASK_DIR/input")"
		exit
	fi
done`

func newSpool(t *testing.T, agent *nomadtest.Agent, l *world.Load) *spool {
	s := &spool{t, agent, l, t.TempDir()}
	for _, dir := range []string{"in", "work", "done"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	agent.Run(t, nomadtest.Job{ID: "encode", Count: 1, Script: "cd " + s.dir + encode, Alter: func(job *nomadapi.Job) {
		job.Type, job.TaskGroups[0].Update = new(nomadapi.JobTypeBatch), nil
		job.ParameterizedJob = &nomadapi.ParameterizedJobConfig{Payload: "required", MetaRequired: []string{"tenant"}}
		job.TaskGroups[0].Tasks[0].DispatchPayload = &nomadapi.DispatchPayloadConfig{File: "input"}
	}})
	return s
}

func (s *spool) count(dir string) int {
	files, err := filepath.Glob(filepath.Join(s.dir, dir+"*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(files)
}

// add adds work and updates the metric.
func (s *spool) add(names ...string) {
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o666); err != nil {
			s.t.Fatal(err)
		}
	}
	s.update()
}

func (s *spool) update() { s.load.Queue("encode", 10*float64(s.count("in/")+s.count("work/"))) }

// children returns the number of children that were ever dispatched.
func (s *spool) children() int {
	stubs, _, err := s.agent.Client.Jobs().PrefixList("encode/dispatch-hpad-")
	if err != nil {
		s.t.Fatal(err)
	}
	return len(stubs)
}

func (s *spool) await(dir string, n int) {
	s.t.Helper()
	wait.For(s.t, patience, fmt.Sprintf("%d files in %s", n, dir), func() (string, bool) {
		s.update()
		return fmt.Sprintf("in %d, work %d, done %d", s.count("in/"), s.count("work/"), s.count("done/")), s.count(dir+"/") == n
	})
}

// losing returns the address of a proxy that loses the responses of the next dispatches.
func losing(t *testing.T, address string, lose *atomic.Int32) string {
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/dispatch") && lose.Add(-1) >= 0 {
			return errors.New("lost")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// dispatched checks a parameterized job with a queue of finite work: children are dispatched for
// work, not again after a restart of hpad or after lost responses, and end by themselves.
func dispatched(t *testing.T, agent *nomadtest.Agent, l *world.Load) {
	s := newSpool(t, agent, l)
	var lose atomic.Int32
	text := fleet(losing(t, agent.URL, &lose), "[fleets.prod.dispatch.encode]\npayload = \"h264\"\nmeta = { tenant = \"acme\" }") +
		l.Source() + queued("encode", 0, 5)
	s.update()
	w := world.New(t, text)
	w.Passes("encode", 3)
	if got := s.children(); got != 0 {
		t.Fatalf("%d children without work", got)
	}
	s.add("in/1", "in/2", "in/3")
	s.await("work", 3)
	w.Restart(text)
	w.Passes("encode", 3)
	if list, err := w.InstancesOf(t.Context(), "encode"); err != nil || len(list.Instances) != 3 || s.children() != 3 {
		t.Errorf("after a restart: %d children, instances %+v, %v, want 3", s.children(), list, err)
	}
	lose.Store(2) // also the response of the immediate repetition
	s.add("in/4", "in/5")
	s.await("work", 5)
	w.Passes("encode", 3)
	if got := s.children(); got != 5 || lose.Load() > 0 {
		t.Errorf("after lost responses: %d children, %d more responses to lose, want 5 children", got, lose.Load())
	}
	s.add("go")
	s.await("done", 5)
	wait.For(t, patience, "the end of all children", func() (string, bool) {
		n := w.View("encode").Status.CurrentReplicas
		return fmt.Sprintf("%d children", n), n == 0
	})
	before := s.children()
	w.Passes("encode", 3)
	if got := s.children(); got != before {
		t.Errorf("%d children without work", got-before)
	}
	s.add("in/6", "in/7")
	s.await("done", 7)
	if got := s.count("done/acme-*-h264"); got == 0 {
		t.Error("the children have another payload or other metadata")
	}
	entries, err := w.History(t.Context(), "encode", time.Time{}, time.Time{}, 100)
	for _, entry := range entries {
		if entry.Decision.Foreign != nil {
			t.Errorf("an external change: %+v", entry.Decision.Foreign)
		}
	}
	if err != nil || len(entries) == 0 {
		t.Errorf("%d history entries, %v", len(entries), err)
	}
}
