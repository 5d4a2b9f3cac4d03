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
	"github.com/hpad/hpad/test/internal/world"
)

// cloud is an Auto Scaling group in a simulated AWS behind a gate.
type cloud struct {
	*gate
	aws *awstest.Cloud
	// fleet is the configuration of the fleet named "cloud".
	fleet string
}

// newAWS returns a group whose instances take the duration stop to terminate.
func newAWS(t *testing.T, size int, stop time.Duration) cloud {
	t.Helper()
	aws := awstest.New(t)
	aws.Add(awstest.Group{Name: "pool", Max: 100, Desired: size, Stop: stop})
	g := newGate(t, aws.URL, func(_ *http.Request, body []byte) (ids []string) {
		form, _ := url.ParseQuery(string(body))
		if form.Get("Action") != "TerminateInstanceInAutoScalingGroup" {
			return nil
		}
		for key, values := range form {
			if key == "InstanceId" || strings.HasPrefix(key, "InstanceIds.member.") {
				ids = append(ids, values...)
			}
		}
		return ids
	})
	return cloud{gate: g, aws: aws, fleet: fmt.Sprintf(`
[fleets.cloud]
kind             = "awsasg"
region           = %[1]q
credentials_file = %[2]q
endpoints        = { auto_scaling = %[3]q, ec2 = %[3]q, sts = %[3]q }
`, awstest.Region, aws.Credentials(t), g.URL)}
}

// observe returns the desired count and the sorted IDs of the instances that are not terminating.
func (c cloud) observe() (wanted int, staying []string) {
	group := c.aws.Look("pool")
	for _, instance := range group.Instances {
		if instance.State != awstest.StateTerminating {
			staying = append(staying, instance.ID)
		}
	}
	slices.Sort(staying)
	return group.Desired, staying
}

// configuration returns a fleet, a source and an autoscaler that requires one instance per 10 queue
// entries. drain is the content of the autoscaler's drain table, or "".
func (c cloud) configuration(l *world.Load, name, victims, drain string) string {
	text := strings.Replace(world.Queued(name, `{ fleet = "cloud", group = "pool" }`, 1, 9), "min_replicas", fmt.Sprintf("victims = %q\nmin_replicas", victims), 1)
	if drain != "" {
		text += fmt.Sprintf("[autoscalers.%s.drain]\ninterval = \"1s\"\n%s", name, drain)
	}
	return c.fleet + l.Source() + text
}
