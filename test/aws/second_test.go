package aws

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/aws/awstest"
)

// client is the AWS command line against an imitation.
type client struct {
	t           *testing.T
	cloud       *awstest.Cloud
	credentials string
}

// run runs a command, and returns what it printed and said.
func (c *client) run(service string, arguments ...string) (output, said string) {
	c.t.Helper()
	arguments = append([]string{service, "--endpoint-url", c.cloud.URL, "--region", awstest.Region, "--output", "json"}, arguments...)
	command := exec.Command("aws", arguments...)
	command.Env = append(command.Environ(),
		"AWS_SHARED_CREDENTIALS_FILE="+c.credentials, "AWS_CONFIG_FILE="+filepath.Join(c.t.TempDir(), "none"),
		"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_PROFILE=default", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1",
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
	)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	_ = command.Run() // a refusal is an exit code and words
	return out.String(), strings.TrimSpace(problems.String())
}

// read runs a command and decodes what it printed.
func (c *client) read(into any, service string, arguments ...string) {
	c.t.Helper()
	output, said := c.run(service, arguments...)
	if err := json.Unmarshal([]byte(output), into); err != nil {
		c.t.Fatalf("aws %s %v printed %q and said %q: %v", service, arguments, output, said, err)
	}
}

// TestCommandLine has the AWS command line, which others made of AWS's own model of
// its services, read and scale groups of the imitation.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skip("there is no aws command to be the second client: it comes with the AWS command line interface")
	}
	cloud := awstest.New(t)
	for _, name := range []string{"db", "mail", "web"} {
		cloud.Add(awstest.Group{Name: name, Min: 1, Max: 5, Desired: 2})
	}
	cloud.Edit("web", func(g *awstest.Group) {
		g.Policies = []awstest.Policy{{Name: "cpu50", Type: "StepScaling", Alarm: "cpu"}, {Name: "forecast", Type: "PredictiveScaling", Mode: "ForecastOnly"}}
		g.Refreshes = []awstest.Refresh{{ID: "r-1", Status: "InProgress", Percent: 40}}
		g.Suspended = []string{"AZRebalance"}
	})
	c := &client{t: t, cloud: cloud, credentials: cloud.Credentials(t)}

	var groups struct {
		AutoScalingGroups []struct {
			AutoScalingGroupName, CreatedTime string
			MinSize, MaxSize, DesiredCapacity int
			SuspendedProcesses                []struct{ ProcessName string }
			Instances                         []struct {
				InstanceId, LifecycleState, HealthStatus, AvailabilityZone string //nolint:revive // as AWS spells it
				ProtectedFromScaleIn                                       bool
			}
		}
	}
	// Pages of one: the command line follows the tokens.
	c.read(&groups, "autoscaling", "describe-auto-scaling-groups", "--page-size", "1")
	var names []string
	for _, g := range groups.AutoScalingGroups {
		names = append(names, g.AutoScalingGroupName)
		if g.MinSize != 1 || g.MaxSize != 5 || g.DesiredCapacity != 2 || len(g.Instances) != 2 || g.CreatedTime == "" {
			t.Errorf("group %+v", g)
		}
	}
	if !slices.Equal(names, []string{"db", "mail", "web"}) {
		t.Fatalf("groups %v", names)
	}
	web := groups.AutoScalingGroups[2]
	if i := web.Instances[0]; i.LifecycleState != "InService" || i.HealthStatus != "Healthy" || i.AvailabilityZone == "" || len(web.SuspendedProcesses) != 1 {
		t.Errorf("group %+v", web)
	}

	if _, said := c.run("autoscaling", "set-desired-capacity", "--auto-scaling-group-name", "web", "--desired-capacity", "4", "--no-honor-cooldown"); said != "" {
		t.Errorf("set-desired-capacity: %s", said)
	}
	if got := cloud.Look("web").Desired; got != 4 {
		t.Errorf("desired capacity %d, want 4", got)
	}
	for _, refused := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"set-desired-capacity", "--auto-scaling-group-name", "web", "--desired-capacity", "6"}, "(ValidationError) when calling the SetDesiredCapacity operation: New SetDesiredCapacity value 6 is above max value 5"},
		{[]string{"set-desired-capacity", "--auto-scaling-group-name", "web", "--desired-capacity", "5", "--honor-cooldown"}, "(ScalingActivityInProgress)"},
		{[]string{"terminate-instance-in-auto-scaling-group", "--instance-id", "i-00000000000000000", "--should-decrement-desired-capacity"}, "No managed instance found for instance ID: i-00000000000000000"},
	} {
		if _, said := c.run("autoscaling", refused.arguments...); !strings.Contains(said, refused.want) {
			t.Errorf("aws autoscaling %v said %q, want %q", refused.arguments, said, refused.want)
		}
	}

	victim := web.Instances[1].InstanceId
	var terminated struct {
		Activity struct{ ActivityId, StatusCode string } //nolint:revive // as AWS spells it
	}
	c.read(&terminated, "autoscaling", "terminate-instance-in-auto-scaling-group", "--instance-id", victim, "--should-decrement-desired-capacity")
	if g := cloud.Look("web"); g.Desired != 3 || slices.Contains(ids(cloud, "web"), victim) || terminated.Activity.ActivityId == "" {
		t.Errorf("desired capacity %d of %v, activity %+v", g.Desired, ids(cloud, "web"), terminated)
	}

	var activities struct {
		Activities []struct{ Description, StatusCode, Cause, StartTime string }
	}
	c.read(&activities, "autoscaling", "describe-scaling-activities", "--auto-scaling-group-name", "web")
	if len(activities.Activities) != 3 || !strings.HasPrefix(activities.Activities[0].Description, "Terminating EC2 instance: "+victim) {
		t.Errorf("activities %+v, want the termination and two launches", activities.Activities)
	}
	var policies struct {
		ScalingPolicies []struct {
			PolicyName, PolicyType         string
			Enabled                        bool
			Alarms                         []struct{ AlarmName string }
			PredictiveScalingConfiguration struct{ Mode string }
		}
	}
	c.read(&policies, "autoscaling", "describe-policies")
	if p := policies.ScalingPolicies; len(p) != 2 || p[0].PolicyName != "cpu50" || !p[0].Enabled || len(p[0].Alarms) != 1 || p[1].PredictiveScalingConfiguration.Mode != "ForecastOnly" {
		t.Errorf("policies %+v", p)
	}
	var refreshes struct {
		InstanceRefreshes []struct {
			Status             string
			PercentageComplete int
		}
	}
	c.read(&refreshes, "autoscaling", "describe-instance-refreshes", "--auto-scaling-group-name", "web")
	if r := refreshes.InstanceRefreshes; len(r) != 1 || r[0].Status != "InProgress" || r[0].PercentageComplete != 40 {
		t.Errorf("refreshes %+v", r)
	}

	var instances struct {
		Reservations []struct {
			Instances []struct {
				InstanceId, LaunchTime, PrivateIpAddress, PrivateDnsName string //nolint:revive // as AWS spells it
				State                                                    struct{ Name string }
				Tags                                                     []struct{ Key, Value string }
			}
		}
	}
	c.read(&instances, "ec2", "describe-instances", "--filters", "Name=instance-id,Values="+web.Instances[0].InstanceId)
	if len(instances.Reservations) != 1 || len(instances.Reservations[0].Instances) != 1 {
		t.Fatalf("instances %+v", instances)
	}
	if i := instances.Reservations[0].Instances[0]; i.LaunchTime == "" || i.PrivateIpAddress == "" || i.PrivateDnsName == "" || i.State.Name != "running" || len(i.Tags) != 3 {
		t.Errorf("instance %+v", i)
	}
	cloud.Expire()
	if _, said := c.run("sts", "get-caller-identity"); !strings.Contains(said, "(ExpiredToken)") {
		t.Errorf("with expired credentials it said %q", said)
	}
}
