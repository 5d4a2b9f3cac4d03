package docker

import (
	"slices"
	"testing"

	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/soak"
)

// Engine versions on which a scenario runs. Scenarios whose behavior depends on the version use
// both. In soak tests, all scenarios run on both.
var (
	packaged = []dockertest.Version{dockertest.Packaged}
	newest   = []dockertest.Version{dockertest.Newest}
	both     = []dockertest.Version{dockertest.Packaged, dockertest.Newest}
)

// scenario is a test that shares an engine with other tests.
type scenario[Shared any] struct {
	name string
	on   []dockertest.Version
	run  func(t *testing.T, shared *Shared)
}

// onVersions runs tests in parallel on one engine per version.
func onVersions[Shared any](t *testing.T, all []scenario[Shared], start func(*testing.T, dockertest.Options) *Shared) {
	for _, version := range both {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			shared := start(t, dockertest.Options{Version: version})
			t.Run("cases", func(t *testing.T) { // must end before the cleanup stops the engine
				for _, s := range all {
					if !slices.Contains(soak.Rounds(s.on, both), version) {
						continue
					}
					t.Run(s.name, func(t *testing.T) {
						t.Parallel()
						s.run(t, shared)
					})
				}
			})
		})
	}
}
