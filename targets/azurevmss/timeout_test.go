package azurevmss

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/azure/azuretest"
)

// A call that the fleet's timeout ends says so.
func TestTimeoutIsNamed(t *testing.T) {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "web", Capacity: 1})
	c := testConfig(t, s, "")
	f := openFleet(t, c, targets.Env{})
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("shop/web")}); err != nil {
		t.Fatal(err)
	}
	c = testConfig(t, s, "")
	c.Timeout = 50 * time.Millisecond
	s.Hang(true)
	defer s.Hang(false)
	err := openFleet(t, c, targets.Env{}).SetReplicas(t.Context(), ref("shop/web"), 2, "", "the test asks")
	if err == nil || !strings.Contains(err.Error(), "no answer within the fleet's timeout of 50ms") {
		t.Errorf("SetReplicas() = %v, want the limit named", err)
	}
}
