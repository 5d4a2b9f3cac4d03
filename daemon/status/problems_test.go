package status_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/sources"
)

// TestProblems checks that a rejected configuration and problems of adapters are shown while they
// last.
func TestProblems(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		withProblems := &problemSource{Source: w.Source()}
		w.SourceKind = func(string) sources.Source { return withProblems }
		w.Start()
		w.LoadErr = errors.New("hpad.toml:3: unknown key")
		if _, err := w.Daemon.Reload(t.Context()); err == nil {
			t.Error("an invalid file was accepted")
		}
		withProblems.problems = []string{"scrape 127.0.0.1:9100: 500"}
		want := []api.Problem{
			{Subject: "configuration", Message: "hpad.toml:3: unknown key"},
			{Subject: "source source", Message: "scrape 127.0.0.1:9100: 500"},
		}
		if got := w.Daemon.Readiness().Problems; !slices.Equal(got, want) {
			t.Errorf("problems = %v, want %v", got, want)
		}
		w.LoadErr, withProblems.problems = nil, nil
		if _, err := w.Daemon.Reload(t.Context()); err != nil {
			t.Error(err)
		}
		if got := w.Daemon.Readiness().Problems; len(got) != 0 {
			t.Errorf("problems = %v, want none", got)
		}
		w.Stop()
	})
}

type problemSource struct {
	*daemontest.Source
	problems []string
}

func (s *problemSource) Problems() []string { return s.problems }
