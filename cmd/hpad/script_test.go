package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hpad": main})
}

// TestScript runs the real command line with daemons in memory.
func TestScript(t *testing.T) { runScripts(t, "testdata/script") }

// TestDemo runs the demo, which needs enough CPU time to grow and shrink.
func TestDemo(t *testing.T) { runScripts(t, "testdata/demo") }

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			return nil
		},
		Condition: func(condition string) (bool, error) {
			kind, ok := strings.CutPrefix(condition, "kind:")
			if !ok {
				return false, errors.New("there is no such condition")
			}
			_, known := kinds.Fleets[kind]
			return known, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"serve": serve},
	})
}

// serve serves the scenarios until the script ends, and stores the path of the socket in
// HPAD_SOCKET. "serve empty" has no autoscalers. With "serve bad MESSAGE", reloads are rejected,
// and with "serve refused MESSAGE", the last reload was rejected. With "serve lacking MESSAGE", the
// history is incomplete. With "serve hung", the scheduler does not tick. With "serve late NAME",
// one autoscaler is not evaluated. With "serve failing MESSAGE", every pass fails. With "serve
// short NAME", an autoscaler wants more replicas than its maximum. With "serve unowned MESSAGE", a
// fleet of the cluster has no owner, and writes are rejected. With "serve unwritten MESSAGE", the
// state cannot be written.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	daemon := scenarios()
	daemon.File = ts.MkAbs("hpad.toml")
	switch {
	case neg:
		ts.Fatalf("serve cannot be negated")
	case len(args) == 0:
	case len(args) == 1 && args[0] == "empty":
		daemon.List = nil
	case len(args) == 2 && args[0] == "bad":
		daemon.ReloadErr = errors.New(args[1])
	case len(args) == 2 && args[0] == "refused":
		daemon.Alive.RefusedReload = args[1]
	case len(args) == 2 && args[0] == "unwritten":
		daemon.Alive.Unwritten = args[1]
	case len(args) == 2 && args[0] == "lacking":
		daemon.Lacks = args[1]
	case len(args) == 1 && args[0] == "hung":
		daemon.Alive.Healthy = false
	case len(args) == 2 && args[0] == "late":
		daemon.Alive.Unevaluated = []api.Problem{{Subject: "autoscaler " + args[1], Message: "read the target: timeout"}}
	case len(args) == 2 && args[0] == "failing":
		daemon.Alive.AllFailing = args[1]
	case len(args) == 3 && args[0] == "failing":
		daemon.Alive.Failing = []api.Problem{{Subject: "autoscaler " + args[1], Message: args[2]}}
	case len(args) == 2 && args[0] == "crashing":
		daemon.Alive.FailingInstances = []api.Problem{{Subject: "autoscaler " + args[1], Message: "ProcessesFailing: 1 of 5 processes fail: web-4: process ended: exit status 7"}}
	case len(args) == 2 && args[0] == "held":
		daemon.Alive.HeldBack = []api.Problem{{Subject: "autoscaler " + args[1], Message: "UpdatePaused: the update is paused"}}
	case len(args) == 2 && args[0] == "unowned":
		daemon.Alive.Cluster = []api.Problem{{Subject: "fleet prod", Message: args[1]}}
		daemon.ActErr = fmt.Errorf("%w: %s", api.ErrRefused, args[1])
	case len(args) == 2 && args[0] == "short":
		shortage := policy.Shortage{Wanted: 61, Max: 2, Reason: reason.TooManyReplicas.String()}
		daemon.Alive.Shortages = []api.Problem{{Subject: "autoscaler " + args[1], Message: shortage.String()}}
		for i := range daemon.List {
			if daemon.List[i].Name == args[1] {
				daemon.List[i].Evaluation.Shortage = &shortage
			}
		}
	default:
		ts.Fatalf("usage: serve [empty | bad MESSAGE | refused MESSAGE | lacking MESSAGE | hung | late NAME | failing [NAME] MESSAGE | short NAME | crashing NAME | unowned MESSAGE]")
	}
	// The path of the script's own directory may be too long for a socket.
	dir, err := os.MkdirTemp("", "hpad")
	ts.Check(err)
	socket := filepath.Join(dir, "hpad.sock")
	listener, err := api.ListenSocket(socket, "")
	ts.Check(err)
	server := api.NewServer(api.NewHandler(daemon, prometheus.NewRegistry(), api.Full), nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	ts.Defer(func() {
		ts.Check(server.Close())
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			ts.Fatalf("serve: %v", err)
		}
		ts.Check(os.RemoveAll(dir))
	})
	ts.Setenv("HPAD_SOCKET", socket)
}
