// Package adapters tests the adapters in configs/fleets.
package adapters

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/exec"
	"github.com/hpad/hpad/test/wait"
)

// fleets is the directory of the adapters.
const fleets = "../../configs/fleets"

// TestWorkers runs the script at the beginning of docs/fleets-http.md.
func TestWorkers(t *testing.T) {
	page, err := os.ReadFile("../../docs/fleets-http.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(fleets, "workers.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```sh\n"+string(script)+"```\n") || strings.Count(string(script), "\n") > 20 {
		t.Error("docs/fleets-http.md does not contain workers.sh, or it has more than 20 lines")
	}
	root := t.TempDir()
	pool := filepath.Join(root, "mail")
	if err := os.Mkdir(pool, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pool, "run"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	path, err := filepath.Abs(filepath.Join(fleets, "workers.sh"))
	if err != nil {
		t.Fatal(err)
	}
	config := &exec.Config{Command: []string{path, root}, Mode: "oneshot"}
	config.SetDefaults()
	fleet, err := config.Build("pools", targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	mail := targets.Ref{Fleet: "pools", Name: "mail"}
	read := func(want int32) targets.Reading {
		t.Helper()
		readings, err := fleet.Snapshot(t.Context(), []targets.Ref{mail, {Fleet: "pools", Name: "nobody"}})
		got := readings[mail]
		if err != nil || got.Err != nil || got.SpecReplicas != want || !errors.Is(readings[targets.Ref{Fleet: "pools", Name: "nobody"}].Err, targets.ErrTargetNotFound) {
			t.Fatalf("Snapshot() = %+v, %v, want %d workers", readings, err, want)
		}
		return got
	}
	scale := func(n int32, version string, want error) {
		t.Helper()
		if err := fleet.SetReplicas(context.WithoutCancel(t.Context()), mail, n, version, "test"); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("SetReplicas(%d) = %v, want %v", n, err, want)
		}
	}
	t.Cleanup(func() { scale(0, "", nil) })
	first := read(0)
	scale(3, first.Version, nil)
	three := read(3)
	scale(5, first.Version, targets.ErrConflict)
	pids := workers(t, pool)
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.Soon(t, "end of the killed worker", func() bool { return syscall.Kill(pids[0], 0) != nil })
	scale(4, three.Version, targets.ErrConflict)
	scale(1, read(2).Version, nil)
	read(1)
	if err := os.WriteFile(filepath.Join(pool, "hold"), []byte("no changes today\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	scale(2, "", targets.ErrHeld)
	if err := os.Remove(filepath.Join(pool, "hold")); err != nil {
		t.Fatal(err)
	}
}

// workers returns the process IDs of a pool.
func workers(t *testing.T, pool string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pool, "*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		pid, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(file), ".pid"))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
