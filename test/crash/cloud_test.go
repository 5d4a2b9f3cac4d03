package crash

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/aws/awstest"
)

// cloud is an instance group in a simulated cloud behind a gate.
type cloud struct {
	*gate
	// fleet is the configuration of the fleet "cloud", and target the TOML of the group.
	fleet, target string
	// look returns the desired count and the sorted IDs of the instances that are not
	// terminating.
	look func(t *testing.T) (wanted int, staying []string)
}

// newAWS returns an Auto Scaling group. Its instances take the time stop to terminate.
func newAWS(t *testing.T, size int, stop time.Duration) (cloud, *awstest.Cloud) {
	t.Helper()
	aws := awstest.New(t)
	aws.Add(awstest.Group{Name: "pool", Max: 100, Desired: size, Stop: stop})
	c := cloud{gate: newGate(t, aws.URL, func(_ *http.Request, body []byte) []string {
		form, _ := url.ParseQuery(string(body))
		if form.Get("Action") != "TerminateInstanceInAutoScalingGroup" {
			return nil
		}
		var ids []string
		for key, values := range form {
			if key == "InstanceId" || strings.HasPrefix(key, "InstanceIds.member.") {
				ids = append(ids, values...)
			}
		}
		return ids
	})}
	c.fleet = fmt.Sprintf(`
[fleets.cloud]
kind             = "awsasg"
region           = %q
credentials_file = %q
endpoints        = { auto_scaling = %q, ec2 = %q, sts = %q }
`, awstest.Region, aws.Credentials(t), c.URL, c.URL, c.URL)
	c.target = `{ fleet = "cloud", group = "pool" }`
	c.look = func(*testing.T) (int, []string) {
		group := aws.Look("pool")
		var staying []string
		for _, instance := range group.Instances {
			if instance.State != awstest.StateTerminating {
				staying = append(staying, instance.ID)
			}
		}
		slices.Sort(staying)
		return group.Desired, staying
	}
	return c, aws
}
