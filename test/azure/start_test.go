package azure

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/program"
)

// TestStart runs the commands in docs/start-azure.md.
func TestStart(t *testing.T) {
	t.Parallel()
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "worker", Capacity: 1, BootDelay: time.Second, DeleteDelay: time.Second})
	replace := guide.Own(t)
	replace["00000000-0000-0000-0000-000000000000"] = azuretest.Subscription
	replace["11111111-1111-1111-1111-111111111111"] = azuretest.Tenant
	replace["22222222-2222-2222-2222-222222222222"] = azuretest.Client
	replace[`client_secret_file = "/home/me/azure-secret"`] = fmt.Sprintf(
		"client_secret_file = %q\nendpoint = %q\nauthority_host = %q\ndisable_instance_discovery = true\nca_file = %q", s.SecretFile, s.URL, s.URL, s.CAFile)
	output := guide.Run(t, &guide.Page{
		Path: "../../docs/start-azure.md", Replace: replace,
		Environment: []string{"PATH=" + filepath.Dir(program.Binary(t)) + ":" + os.Getenv("PATH")},
	})
	guide.WantScaling(t, output["hpad history worker"])
}
