package gce

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/hpad/hpad/test/gce/gcetest"
)

// gcloud runs Google's own command line on a server, and decodes what it prints.
// Nothing installs it, so that a test is skipped where it is not there, also with
// CI=true.
func gcloud(t *testing.T, server *gcetest.Server, answer any, arguments ...string) {
	t.Helper()
	path, err := exec.LookPath("gcloud")
	if err != nil {
		t.Skip("there is no gcloud on the PATH: install the Google Cloud CLI")
	}
	command := exec.CommandContext(t.Context(), path, append(append([]string{"compute", "instance-groups", "managed"}, arguments...), "--format=json", "--quiet")...)
	command.Env = append(os.Environ(),
		"CLOUDSDK_CONFIG="+t.TempDir(), "CLOUDSDK_CORE_PROJECT="+server.Project, "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING=true",
		"CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true", "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE="+server.Endpoint,
		"CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK=true",
	)
	command.WaitDelay = stopDelay
	output, err := command.Output()
	if err != nil {
		said := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said = string(exit.Stderr)
		}
		t.Fatalf("gcloud %v: %v\n%s", arguments, err, said)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(output, answer); err != nil {
		t.Fatalf("gcloud %v answers %s: %v", arguments, output, err)
	}
}

// TestSecondClient: Google's own command line, which takes many seconds for every
// call, reads and changes what the imitation has as hpad does.
func TestSecondClient(t *testing.T) {
	t.Parallel()
	t.Run("zonal", func(t *testing.T) {
		t.Parallel()
		server := gcetest.Start(t)
		server.Open()
		group := gcetest.Group{Zone: "us-east1-b", Name: "web", Size: 2}
		server.Add(group)
		gcloud(t, server, nil, "resize", "web", "--size=4", "--zone=us-east1-b")
		var described struct {
			Name       string `json:"name"`
			TargetSize int    `json:"targetSize"`
			Status     struct {
				IsStable bool `json:"isStable"`
			} `json:"status"`
		}
		gcloud(t, server, &described, "describe", "web", "--zone=us-east1-b")
		if described.Name != "web" || described.TargetSize != 4 || !described.Status.IsStable {
			t.Errorf("gcloud describes %+v, want a stable group of 4", described)
		}
	})
	t.Run("regional", func(t *testing.T) {
		t.Parallel()
		server := gcetest.Start(t)
		server.Open()
		group := gcetest.Group{Region: "us-east1", Name: "web", Size: 4, Watched: true, Paginated: true}
		server.Add(group)
		running := server.Running(t, group.Target())
		gcloud(t, server, nil, "delete-instances", "web", fmt.Sprintf("--instances=%s,%s", running[0], running[1]), "--region=us-east1")
		var members []struct {
			Name          string `json:"name"`
			CurrentAction string `json:"currentAction"`
			Status        string `json:"instanceStatus"`
		}
		gcloud(t, server, &members, "list-instances", "web", "--region=us-east1")
		if size := server.Size(t, group.Target()); size != 2 || len(members) != 2 {
			t.Fatalf("size %d and %+v after gcloud deleted two of four instances, want 2", size, members)
		}
		for _, m := range members {
			if m.CurrentAction != "NONE" || m.Status != "RUNNING" || !slices.Contains(running[2:], m.Name) {
				t.Errorf("gcloud lists %+v, want one of %v that runs", m, running[2:])
			}
		}
	})
}
