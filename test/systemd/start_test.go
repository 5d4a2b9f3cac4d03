package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/systemd/systemdtest"
)

// TestStart runs the commands in docs/start-systemd.md.
func TestStart(t *testing.T) {
	t.Parallel()
	m := systemdtest.Start(t)
	output := guide.Run(t, &guide.Page{
		Path: "../../docs/start-systemd.md", Replace: guide.Own(t),
		Environment: slices.Concat(m.Environment(), []string{"PATH=" + filepath.Dir(program.Binary(t)) + ":" + os.Getenv("PATH")}),
	})
	guide.WantScaling(t, output["hpad history worker"])
}
