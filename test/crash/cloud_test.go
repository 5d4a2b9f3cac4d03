package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/gce/gcetest"
)

// cloud is a group of machines in an imitated cloud, behind a gate.
type cloud struct {
	*gate
	// fleet is the configuration of a fleet called cloud, target the group as TOML
	// has it.
	fleet, target string
	// look returns the count that the group is to have, and its instances that stay,
	// as calls that take instances name them, in order.
	look func(t *testing.T) (wanted int, staying []string)
}

// newAWS returns an Auto Scaling group of so many machines, which take a time to go.
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

// newGCE is newAWS for a managed instance group.
func newGCE(t *testing.T, size int, stop time.Duration) cloud {
	t.Helper()
	gce := gcetest.Start(t)
	group := gcetest.Group{Zone: "us-east1-b", Name: "pool", Size: size, Stop: stop}
	gce.Add(group)
	c := cloud{gate: newGate(t, strings.TrimSuffix(gce.Endpoint, "/compute/v1/"), func(r *http.Request, body []byte) []string {
		if !strings.HasSuffix(r.URL.Path, "/deleteInstances") {
			return nil
		}
		var named struct{ Instances []string }
		_ = json.Unmarshal(body, &named)
		for i := range named.Instances {
			named.Instances[i] = lastOf(named.Instances[i])
		}
		return named.Instances
	})}
	c.fleet = fmt.Sprintf("[fleets.cloud]\nkind = \"gcemig\"\nproject = %q\nendpoint = %q\ncredentials_file = %q\n",
		gce.Project, c.URL+"/compute/v1/", gce.CredentialsFile(t))
	c.target = `{ fleet = "cloud", group = "pool", zone = "us-east1-b" }`
	c.look = func(t *testing.T) (int, []string) {
		return gce.Size(t, group.Target()), slices.Sorted(slices.Values(gce.Running(t, group.Target())))
	}
	return c
}

// newAzure is newAWS for a scale set.
func newAzure(t *testing.T, size int, stop time.Duration) cloud {
	t.Helper()
	azure := azuretest.New(t)
	azure.Add(azuretest.Set{Group: "shop", Name: "pool", Capacity: size, DeleteDelay: stop})
	c := cloud{gate: newGate(t, azure.URL, func(r *http.Request, body []byte) []string {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/delete") {
			return nil
		}
		var named struct {
			InstanceIDs []string `json:"instanceIds"`
		}
		_ = json.Unmarshal(body, &named)
		return named.InstanceIDs
	})}
	c.fleet = strings.ReplaceAll(azure.TOML("cloud", "set_writes_per_minute = 6000\n"), azure.URL, c.URL)
	c.target = `{ fleet = "cloud", resource_group = "shop", scale_set = "pool" }`
	c.look = func(*testing.T) (int, []string) {
		var staying []string
		capacity := azuretest.Look(azure, "shop/pool", func(set *azuretest.Set) int {
			for _, machine := range set.Living() {
				staying = append(staying, strconv.Itoa(machine.Number))
			}
			return set.Capacity
		})
		slices.Sort(staying)
		return capacity, staying
	}
	return c
}
