package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// buildAutoscaler returns the path of nomad-autoscaler. It builds the program if necessary.
func buildAutoscaler(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "test/scale/nomad-autoscaler.sh").Output()
	if err != nil {
		return "", fmt.Errorf("build nomad-autoscaler: %w", err)
	}
	return string(bytes.TrimSpace(output)), nil
}

// autoscaler is a running nomad-autoscaler. It does not export the number of evaluations, but each
// evaluation makes one query.
type autoscaler struct {
	*process
	environment *environment
}

func (a *autoscaler) count(context.Context) (counts, error) {
	c := counts{passes: float64(a.environment.queries.Load())}
	text, err := os.ReadFile(a.log)
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("[ERROR]")) || bytes.Contains(line, []byte("[WARN]")) {
			c.failed++
		}
	}
	return c, err
}

// measureAutoscaler measures nomad-autoscaler with its default settings and the policies in the
// jobs.
func measureAutoscaler(ctx context.Context, program string, r row) (*result, error) {
	s, err := startEnvironment(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.end()
	dir, err := os.MkdirTemp("", "hpad-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	text := fmt.Sprintf(`log_level = "WARN"
http {
  bind_address = "127.0.0.1"
  bind_port    = %d
}
nomad {
  address = %q
}
apm "prometheus" {
  driver = "prometheus"
  config = {
    address = %q
  }
}
strategy "pass-through" {
  driver = "pass-through"
}
`, port, s.nomad, s.prometheus)
	file := filepath.Join(dir, "autoscaler.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	m := &result{program: program, row: r}
	p, err := start(filepath.Join(dir, "log"), program, "agent", "-config", file)
	if err != nil {
		return nil, err
	}
	err = measure(ctx, &autoscaler{process: p, environment: s}, s, m)
	p.Kill() // it can panic during shutdown
	return m, err
}
