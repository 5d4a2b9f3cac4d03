package docker

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/program"
)

// TestStart runs the commands in docs/start-compose.md and docs/start-swarm.md with the worker
// image.
func TestStart(t *testing.T) {
	t.Parallel()
	for page, image := range map[string]map[string]string{
		"compose": {"image: busybox\n    command: sleep infinity": "image: " + dockertest.Worker},
		"swarm":   {"busybox sleep infinity": dockertest.Worker},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			e := dockertest.Start(t, dockertest.Options{})
			e.ImportWorker(t, dockertest.Worker, "1")
			e.AddCompose(t)
			replace := guide.Own(t)
			maps.Copy(replace, image)
			environment := e.Environment()
			for n, variable := range environment {
				if path, is := strings.CutPrefix(variable, "PATH="); is {
					environment[n] = "PATH=" + filepath.Dir(program.Binary(t)) + ":" + path
				}
			}
			output := guide.Run(t, &guide.Page{Path: "../../docs/start-" + page + ".md", Replace: replace, Environment: environment})
			guide.WantScaling(t, output["hpad history worker"])
		})
	}
}
