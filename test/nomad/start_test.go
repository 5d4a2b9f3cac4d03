package nomad

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// TestStart runs the commands in docs/start-nomad.md.
func TestStart(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{})
	nomad := installed.Path(t, filepath.Join("nomad-v*", "nomad"), "test/install/nomad.sh")
	output := guide.Run(t, &guide.Page{
		Path: "../../docs/start-nomad.md", Replace: guide.Own(t),
		Environment: []string{
			"NOMAD_ADDR=" + agent.URL,
			"PATH=" + filepath.Dir(program.Binary(t)) + ":" + filepath.Dir(nomad) + ":" + os.Getenv("PATH"),
		},
	})
	guide.WantScaling(t, output["hpad history worker"])
}
