package nomad

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/hpad/hpad/cmd/hpad/live"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

// TestTwins: a job is the target of three autoscalers whose fleets are one cluster, by
// another address and by the name of the region, which only Nomad knows. A live check
// finds them.
func TestTwins(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{})
	agent.Run(t, nomadtest.Job{ID: "web", Count: 1})
	agent.AwaitRunning(t, "web", 1, patience)
	address, err := url.Parse(agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(address))
	t.Cleanup(proxy.Close)

	var text strings.Builder
	for name, keys := range map[string]string{
		"a": fmt.Sprintf("address = %q", agent.URL),
		"b": fmt.Sprintf("address = %q", proxy.URL),
		"c": fmt.Sprintf("address = %q\nregion = \"global\"", agent.URL),
	} {
		fmt.Fprintf(&text, "[fleets.%[1]s]\nkind = \"nomad\"\n%[2]s\n[autoscalers.%[1]s]\ntarget = { fleet = %[1]q, job = \"web\", group = \"app\" }\nmax_replicas = 3\n", name, keys)
	}
	c, err := config.Parse("hpad.toml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, finding := range live.Check(t.Context(), c, nil) {
		if finding.Problem {
			problems = append(problems, finding.Key+": "+finding.Text)
		}
	}
	for i, want := range []string{"b", "c"} {
		if len(problems) != 2 || !strings.HasPrefix(problems[i], "autoscalers."+want+".target: ") ||
			!strings.Contains(problems[i], fmt.Sprintf(`fleets "a" and %q are the same engine`, want)) {
			t.Fatalf("the problems are\n%s\nwant one of b and one of c", strings.Join(problems, "\n"))
		}
	}
}
