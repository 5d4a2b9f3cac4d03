package gce

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hpad/hpad/test/gce/gcetest"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/program"
)

// TestStart runs the commands in docs/start-gce.md.
func TestStart(t *testing.T) {
	t.Parallel()
	s := gcetest.Start(t)
	s.Add(gcetest.Group{Zone: "us-east1-b", Name: "worker", Size: 1, Boot: time.Second, Stop: time.Second})
	replace := guide.Own(t)
	replace["/home/me/gce.json"] = s.CredentialsFile(t)
	replace[`project = "shop-prod-123"`] = fmt.Sprintf("project = %q\nendpoint = %q", s.Project, s.Endpoint)
	output := guide.Run(t, &guide.Page{
		Path: "../../docs/start-gce.md", Replace: replace,
		Environment: []string{"PATH=" + filepath.Dir(program.Binary(t)) + ":" + os.Getenv("PATH")},
	})
	guide.WantScaling(t, output["hpad history worker"])
}
