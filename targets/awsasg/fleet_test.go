package awsasg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/aws/awstest"
)

// open returns a fake cloud with a group "web" that has the given number of instances, and a
// fleet for it.
func open(t *testing.T, count int, change func(c *Config)) (*awstest.Cloud, *Fleet) {
	t.Helper()
	c := awstest.New(t)
	c.Add(awstest.Group{Name: "web", Min: 1, Max: 10, Desired: count})
	config := testConfig(t, c)
	if change != nil {
		change(config)
	}
	return c, openFleet(t, config, targets.Env{Store: &targettest.Store{}})
}

func readAny(t *testing.T, f *Fleet, name string) targets.Reading {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(name)})
	if err != nil {
		t.Fatalf("Snapshot(%s) = %v", name, err)
	}
	return readings[ref(name)]
}

func readOne(t *testing.T, f *Fleet, name string) targets.Reading {
	t.Helper()
	reading := readAny(t, f, name)
	if reading.Err != nil {
		t.Fatalf("Snapshot(%s): Err = %v", name, reading.Err)
	}
	return reading
}

// await reads a group until the reading meets a condition.
func await(t *testing.T, f *Fleet, what string, as func(r targets.Reading) bool) targets.Reading {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r := readOne(t, f, "web")
		if as(r) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s; last reading: %+v", what, r)
		}
		<-tick.C
	}
}

func TestReading(t *testing.T) {
	c, f := open(t, 0, nil)
	launched := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	c.Edit("web", func(g *awstest.Group) {
		g.Min, g.Desired = 0, 4
		add := func(id, state, health, zone string) *awstest.Instance {
			i := &awstest.Instance{
				ID: id, State: state, Health: health, Zone: zone, Type: "m5.large", Address: "10.0.0." + id[2:],
				Launched: launched, Tags: map[string]string{"Name": "web", "role": "front", "aws:autoscaling:groupName": "web"},
			}
			g.Instances = append(g.Instances, i)
			return i
		}
		add("i-1", "InService", "HEALTHY", "eu-central-1a").Protected = true
		add("i-2", "InService", "Unhealthy", "eu-central-1b")
		add("i-3", "Pending:Wait", "Healthy", "eu-central-1a")
		add("i-4", "ReplacingRootVolume", "Healthy", "eu-central-1a")
		add("i-5", "Terminating:Wait", "Healthy", "eu-central-1a")
		add("i-6", "Standby", "Healthy", "eu-central-1a")
		add("i-7", "Warmed:Stopped", "Healthy", "eu-central-1a")
		g.Suspended = []string{"Launch", "Terminate"} // no more changes
	})
	c.Adopt("web")
	before := time.Now()
	r := readOne(t, f, "web")
	if r.SpecReplicas != 4 || r.StatusReplicas != 4 || *r.Min != 4 || *r.Max != 4 || r.Hold != nil || r.Observed.Before(before) {
		t.Errorf("reading = %+v, want 4 of 4 replicas", r)
	}
	type seen struct {
		ID        string
		Phase     policy.Phase
		Readiness policy.Readiness
		Deleting  bool
		Launched  bool
		Protected bool
		Zone      string
	}
	want := []seen{
		{"i-1", policy.PhaseRunning, policy.ReadinessTrue, false, true, true, "eu-central-1a"},
		{"i-2", policy.PhaseRunning, policy.ReadinessFalse, false, true, false, "eu-central-1b"},
		{"i-3", policy.PhasePending, policy.ReadinessFalse, false, false, false, "eu-central-1a"},
		{"i-4", policy.PhaseRunning, policy.ReadinessFalse, false, true, false, "eu-central-1a"},
		{"i-5", policy.PhaseRunning, policy.ReadinessFalse, true, false, false, "eu-central-1a"},
	}
	var got []seen
	for n, i := range r.Instances {
		if i.StartedAt.IsZero() || i.ReadinessChanged.IsZero() {
			t.Errorf("instance %+v has no start time", i)
		}
		got = append(got, seen{
			i.ID, i.Phase, i.Readiness, i.Deleting, i.StartedAt.Equal(launched),
			r.Locations.At(n).Protected, r.Locations.At(n).Labels["availability_zone"],
		})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if !r.Instances[0].ReadinessChanged.Equal(launched) {
		t.Errorf("ready since %v, want the launch time", r.Instances[0].ReadinessChanged)
	}
	location := targets.Location{
		Name:      "ip-10-0-0-1.eu-central-1.compute.internal",
		Addresses: []string{"10.0.0.1", "ip-10-0-0-1.eu-central-1.compute.internal", "ip-10-0-0-1"},
		Labels:    map[string]string{"Name": "web", "role": "front", "availability_zone": "eu-central-1a", "instance_type": "m5.large"},
		Protected: true,
	}
	if diff := cmp.Diff(location, r.Locations.At(0)); diff != "" {
		t.Errorf("location (-want +got):\n%s", diff)
	}
}

// TestWarmPool checks that an instance is looked up again after it was in the warm pool.
func TestWarmPool(t *testing.T) {
	c, f := open(t, 3, nil)
	calls := func() int {
		readOne(t, f, "web")
		return c.Calls()["DescribeInstances"]
	}
	if n := calls(); n != 1 {
		t.Errorf("EC2 calls of the first reading = %d, want 1", n)
	}
	var warmed string
	c.Edit("web", func(g *awstest.Group) {
		g.Suspended = []string{"Launch"}
		g.Instances[0].State = "Warmed:Stopped"
		warmed = g.Instances[0].ID
	})
	if n := calls(); n != 0 {
		t.Errorf("EC2 calls for an instance in the warm pool = %d, want 0", n)
	}
	again := time.Now().Add(-time.Minute).Truncate(time.Second)
	c.Edit("web", func(g *awstest.Group) { g.Instances[0].State = "Pending" })
	if n := calls(); n != 0 {
		t.Errorf("EC2 calls for a pending instance = %d, want 0", n)
	}
	c.Edit("web", func(g *awstest.Group) { g.Instances[0].State, g.Instances[0].Launched = "InService", again })
	if n := calls(); n != 1 {
		t.Errorf("EC2 calls for an instance from the warm pool = %d, want 1", n)
	}
	for _, i := range readOne(t, f, "web").Instances {
		if i.ID == warmed && !i.StartedAt.Equal(again) {
			t.Errorf("start time of an instance from the warm pool = %v, want its new launch time %v", i.StartedAt, again)
		}
	}
}

// TestWithoutEC2 checks readings without the permission to describe instances, and with
// describe_instances = false.
func TestWithoutEC2(t *testing.T) {
	c, f := open(t, 2, nil)
	c.Deny("DescribeInstances", "")
	before := time.Now()
	r := readOne(t, f, "web")
	if r.Instances[0].StartedAt.Before(before) || r.Instances[0].Readiness != policy.ReadinessTrue {
		t.Errorf("instance = %+v, want the time of the first observation as its start time", r.Instances[0])
	}
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "ec2:DescribeInstances") {
		t.Errorf("Problems() = %q, want ec2:DescribeInstances", problems)
	}
	again := readOne(t, f, "web")
	if !again.Instances[0].StartedAt.Equal(r.Instances[0].StartedAt) {
		t.Error("the start time of an instance changed")
	}
	if n := c.Calls()["DescribeInstances"]; n != 1 {
		t.Errorf("forbidden calls = %d, want one in each interval", n)
	}
	no := false
	c, f = open(t, 2, func(c *Config) { c.DescribeInstances = &no })
	readOne(t, f, "web")
	if n := c.Calls()["DescribeInstances"]; n != 0 {
		t.Errorf("EC2 calls with describe_instances = false: %d, want 0", n)
	}
}

// TestEC2Lags checks an instance that is in service before EC2 returns it.
func TestEC2Lags(t *testing.T) {
	c, f := open(t, 1, nil)
	c.Edit("web", func(g *awstest.Group) {
		g.Lag = time.Hour
		g.Instances[0].Launched = time.Now().Truncate(time.Second)
	})
	if r := readOne(t, f, "web"); r.Instances[0].StartedAt.IsZero() {
		t.Error("the instance has no start time")
	}
	c.Edit("web", func(g *awstest.Group) { g.Lag = 0 })
	if r := readOne(t, f, "web"); len(r.Locations.At(0).Addresses) == 0 || !r.Instances[0].StartedAt.Equal(c.Look("web").Instances[0].Launched) {
		t.Errorf("instance after EC2 returned it: started %v, addresses %v", r.Instances[0].StartedAt, r.Locations.At(0).Addresses)
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	c, f := open(t, 2, func(c *Config) { c.HoldDuringRefresh = true })
	if hold := readOne(t, f, "web").Hold; hold != nil {
		t.Fatalf("initial hold = %+v, want nil", hold)
	}
	version := readOne(t, f, "web").Version
	held := func(reason, words string) {
		t.Helper()
		hold := await(t, f, "hold "+reason, func(r targets.Reading) bool { return r.Hold != nil && r.Hold.Reason == reason }).Hold
		if !strings.Contains(hold.Message, words) {
			t.Errorf("hold = %+v, want %q", hold, words)
		}
		var refused *targets.HeldError
		if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); !errors.As(err, &refused) || refused.Hold.Reason != reason {
			t.Errorf("SetReplicas() = %v, want a HeldError with %s", err, reason)
		}
		if err := f.Remove(t.Context(), ref("web"), []string{c.Look("web").Instances[0].ID}, version, ""); !errors.Is(err, targets.ErrHeld) {
			t.Errorf("Remove() = %v, want ErrHeld", err)
		}
	}
	released := func() {
		t.Helper()
		await(t, f, "end of the hold", func(r targets.Reading) bool { return r.Hold == nil })
	}

	c.Edit("web", func(g *awstest.Group) {
		g.Policies = []awstest.Policy{{Name: "cpu50", Type: typeTargetTracking}}
	})
	held(cloud.NativeAutoscaler, `"cpu50" (TargetTrackingScaling)`)
	c.Edit("web", func(g *awstest.Group) { g.Suspended = []string{"AlarmNotification"} })
	released() // alarms do not trigger the policy
	c.Edit("web", func(g *awstest.Group) {
		g.Policies = []awstest.Policy{{Name: "forecast", Type: typePredictive, Mode: "ForecastAndScale"}}
	})
	held(cloud.NativeAutoscaler, "forecast")
	c.Edit("web", func(g *awstest.Group) { g.Policies, g.Suspended = nil, nil })
	released()

	// An attempt to write detects a refresh.
	c.Edit("web", func(g *awstest.Group) {
		g.Refreshes = []awstest.Refresh{{ID: "r-2", Status: "InProgress", Percent: 40}, {ID: "r-1", Status: "Successful", Percent: 100}}
	})
	refused, ok := errors.AsType[*targets.HeldError](f.SetReplicas(t.Context(), ref("web"), 3, version, ""))
	if !ok || refused.Hold.Reason != RefreshInProgress || !strings.Contains(refused.Hold.Message, "r-2 of group \"web\" is InProgress, 40% complete") {
		t.Errorf("SetReplicas() during a refresh = %v, want a HeldError with %s", refused, RefreshInProgress)
	}
	c.Edit("web", func(g *awstest.Group) { g.Refreshes[0].Status = "Successful" })

	c.Edit("web", func(g *awstest.Group) { g.Status = "Delete in progress" })
	held(GroupDeleting, "Delete in progress")
	c.Edit("web", func(g *awstest.Group) { g.Status = "" })
	if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); err != nil {
		t.Errorf("SetReplicas() after all holds = %v, want nil", err)
	}
	if n := c.Writes(); n != 1 {
		t.Errorf("writes = %d, want only the last one", n)
	}
}

func TestIgnores(t *testing.T) {
	c, f := open(t, 2, func(c *Config) { c.NativeAutoscaler = nativeIgnore })
	c.Edit("web", func(g *awstest.Group) {
		g.Policies = []awstest.Policy{{Name: "cpu50", Type: typeTargetTracking}}
		g.Refreshes = []awstest.Refresh{{ID: "r-1", Status: "InProgress"}}
	})
	r := readOne(t, f, "web")
	if r.Hold != nil {
		t.Errorf("hold = %+v, want nil", r.Hold)
	}
	if err := f.SetReplicas(t.Context(), ref("web"), 3, r.Version, ""); err != nil {
		t.Errorf("SetReplicas() = %v", err)
	}
	if calls := c.Calls(); calls["DescribePolicies"] != 0 || calls["DescribeInstanceRefreshes"] != 0 {
		t.Errorf("calls = %v, want no optional calls", calls)
	}
}

// TestPoliciesNotReadable checks that a group whose policies may not be read is scaled, and that
// Problems and Check report this.
func TestPoliciesNotReadable(t *testing.T) {
	t.Parallel()
	c, f := open(t, 2, nil)
	c.Deny("DescribePolicies", "")
	r := readOne(t, f, "web")
	if r.Hold != nil || r.SpecReplicas != 2 {
		t.Errorf("reading = %+v", r)
	}
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "autoscaling:DescribePolicies") {
		t.Errorf("Problems() = %q, want autoscaling:DescribePolicies", problems)
	}
	if found, err := f.Check(t.Context()); err != nil || !strings.Contains(strings.Join(found, "\n"), "scaling policies are unknown: ") {
		t.Errorf("Check() = %q, %v, want the unknown details", found, err)
	}
	c.Permit("DescribePolicies", "")
	await(t, f, "end of the problem", func(targets.Reading) bool { return len(f.Problems()) == 0 })
}

// TestPoliciesUnknown checks that hpad does not write a group until it has read the scaling
// policies.
func TestPoliciesUnknown(t *testing.T) {
	t.Parallel()
	c, f := open(t, 2, nil)
	c.Inject(awstest.Fault{Action: "DescribePolicies", Times: 4, Status: 500, Code: "InternalFailure"})
	version := readOne(t, f, "web").Version
	if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "scaling policies") || c.Writes() != 0 {
		t.Errorf("SetReplicas() = %v, want ErrTransient and no write", err)
	}
	await(t, f, "end of the problem", func(targets.Reading) bool { return len(f.Problems()) == 0 })
	if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); err != nil {
		t.Errorf("SetReplicas() = %v", err)
	}
}

// TestOptionalDetails checks that a reading does not wait for optional details.
func TestOptionalDetails(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"DescribeInstances", "DescribePolicies"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			c, f := open(t, 2, nil)
			c.Inject(awstest.Fault{Action: action, Times: 1, Delay: time.Minute})
			begun := time.Now()
			r := readOne(t, f, "web")
			if took := time.Since(begun); took > 40*time.Second || len(r.Instances) != 2 || r.Instances[0].StartedAt.IsZero() {
				t.Errorf("the reading took %v: %+v", took, r)
			}
		})
	}
}

func TestUnscalableGroups(t *testing.T) {
	c, f := open(t, 2, nil)
	c.Edit("web", func(g *awstest.Group) { g.Weight = "2" })
	r := readAny(t, f, "web")
	if !errors.Is(r.Err, targets.ErrUnscalable) || targets.Reason(r.Err) != WeightedCapacity {
		t.Errorf("error of a weighted group = %v", r.Err)
	}
	if err := f.SetReplicas(t.Context(), ref("web"), 3, "", ""); !errors.Is(err, targets.ErrUnscalable) {
		t.Errorf("SetReplicas() = %v, want ErrUnscalable", err)
	}
	c.Delete("web")
	if r := readAny(t, f, "web"); targets.Reason(r.Err) != cloud.GroupNotFound {
		t.Errorf("error of a deleted group = %v", r.Err)
	}
}

// TestWriteErrors checks the class of each error of SetDesiredCapacity.
func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault awstest.Fault
		class error
		// unknown reports whether the outcome of the write is unknown.
		unknown bool
		reason  string
		words   string
	}{
		{"above max", awstest.Fault{Status: 400, Code: "ValidationError", Message: "New SetDesiredCapacity value 3 is above max value 2 for the AutoScalingGroup."}, targets.ErrOutOfRange, false, "", "above max value 2"},
		{"below min", awstest.Fault{Status: 400, Code: "ValidationError", Message: "New SetDesiredCapacity value 3 is below min value 4 for the AutoScalingGroup."}, targets.ErrOutOfRange, false, "", "below min value 4"},
		{"no group", awstest.Fault{Status: 400, Code: "ValidationError", Message: "AutoScalingGroup name not found - null"}, targets.ErrTargetNotFound, false, cloud.GroupNotFound, "name not found"},
		{"other validation error", awstest.Fault{Status: 400, Code: "ValidationError", Message: "1 validation error detected"}, targets.ErrTransient, false, "", "1 validation error"},
		{"activity", awstest.Fault{Status: 400, Code: "ScalingActivityInProgress", Message: "Scaling activity 6d5d is in progress and blocks this action"}, targets.ErrHeld, false, "", "6d5d is in progress"},
		{"contention", awstest.Fault{Status: 500, Code: "ResourceContention", Message: "You already have a pending update to an Auto Scaling resource"}, targets.ErrTransient, false, "", "pending update"},
		{"throttled", awstest.Fault{Status: 400, Code: "Throttling", Message: "Rate exceeded"}, targets.ErrThrottled, false, "", "Rate exceeded"},
		{"forbidden", awstest.Fault{Status: 403, Code: "AccessDenied", Message: "User: hpad is not authorized"}, targets.ErrForbidden, false, "", "autoscaling:SetDesiredCapacity"},
		{"expired", awstest.Fault{Status: 403, Code: "ExpiredToken", Message: "The security token included in the request is expired"}, targets.ErrForbidden, false, "", "expired"},
		{"internal error", awstest.Fault{Status: 500, Code: "InternalFailure", Message: "sorry"}, targets.ErrTransient, true, "", "InternalFailure"},
		{"unavailable", awstest.Fault{Status: 503, Code: "ServiceUnavailable", Message: "sorry"}, targets.ErrTransient, true, "", "ServiceUnavailable"},
		{"response lost", awstest.Fault{Lost: true}, targets.ErrTransient, true, "", "EOF"},
		{"invalid response", awstest.Fault{Garbled: true}, targets.ErrTransient, true, "", "not XML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cloud, f := open(t, 2, nil)
			version := readOne(t, f, "web").Version
			c.fault.Action, c.fault.Times = "SetDesiredCapacity", 5
			cloud.Inject(c.fault)
			err := f.SetReplicas(t.Context(), ref("web"), 3, version, "")
			if !errors.Is(err, c.class) || errors.Is(err, targets.ErrUnknownOutcome) != c.unknown || targets.Reason(err) != c.reason || !strings.Contains(err.Error(), c.words) {
				t.Errorf("SetReplicas() = %v\nwant %q, unknown outcome %t, reason %q, words %q", err, c.class, c.unknown, c.reason, c.words)
			}
			tries := cloud.Calls()["SetDesiredCapacity"]
			if tries != 1 {
				t.Errorf("requests = %d, want 1", tries)
			}
			if errors.Is(c.class, targets.ErrOutOfRange) {
				var bounds *targets.OutOfRangeError
				if !errors.As(err, &bounds) || *bounds.Min != 1 || *bounds.Max != 10 {
					t.Errorf("bounds = %v, want the group's", err)
				}
			}
		})
	}
}

// TestReadErrors checks the class of each error of DescribeAutoScalingGroups.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault awstest.Fault
		class error
		words string
		tries int
	}{
		{"throttled", awstest.Fault{Status: 400, Code: "Throttling", Message: "Rate exceeded"}, targets.ErrThrottled, "aws returned 400 Throttling: Rate exceeded", 1},
		{"throttled by a compatible service", awstest.Fault{Status: 429, Code: "Whatever"}, targets.ErrThrottled, "Whatever", 1},
		{"forbidden", awstest.Fault{Status: 403, Code: "AccessDenied", Message: "no"}, targets.ErrForbidden, "autoscaling:DescribeAutoScalingGroups", 1},
		{"internal error", awstest.Fault{Status: 500, Code: "InternalFailure"}, targets.ErrTransient, "InternalFailure", 1},
		{"response lost", awstest.Fault{Lost: true}, targets.ErrTransient, "EOF", 1},
		{"invalid response", awstest.Fault{Garbled: true}, targets.ErrTransient, "deserialization failed", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cloud, f := open(t, 2, nil)
			c.fault.Action, c.fault.Times = "DescribeAutoScalingGroups", 5
			cloud.Inject(c.fault)
			_, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")})
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("Snapshot() = %v\nwant %q with %q", err, c.class, c.words)
			}
			if tries := cloud.Calls()["DescribeAutoScalingGroups"]; tries != c.tries {
				t.Errorf("requests = %d, want %d", tries, c.tries)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	c := awstest.New(t)
	c.Add(awstest.Group{Name: "web", Max: 10, Desired: 2})
	config := testConfig(t, c)
	f := openFleet(t, config, targets.Env{})
	version := readOne(t, f, "web").Version
	c.Expire()
	for range 2 {
		if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("Snapshot() with expired credentials = %v, want ErrForbidden", err)
		}
	}
	c.Rotate()
	c.WriteCredentials(t, config.CredentialsFile)
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); err != nil {
		// The session was created with the old file. Its rejection causes a new session.
		if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); err != nil {
			t.Errorf("Snapshot() with new credentials = %v", err)
		}
	}
	if err := f.SetReplicas(t.Context(), ref("web"), 3, version, ""); err != nil {
		t.Errorf("SetReplicas() with new credentials = %v", err)
	}

	config.CredentialsFile = "/nonexistent/credentials"
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(variable, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent/config")
	f = openFleet(t, config, targets.Env{})
	err := f.SetReplicas(t.Context(), ref("web"), 4, "", "")
	if !errors.Is(err, targets.ErrForbidden) || errors.Is(err, targets.ErrUnknownOutcome) || !strings.Contains(err.Error(), "authenticate: ") {
		t.Errorf("SetReplicas() without credentials = %v, want ErrForbidden", err)
	}
	config.Profile = "nobody"
	f = openFleet(t, config, targets.Env{})
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("Snapshot() with an unknown profile = %v", err)
	}
}

func TestRole(t *testing.T) {
	c, f := open(t, 2, func(c *Config) {
		c.RoleARN, c.ExternalID = "arn:aws:iam::"+awstest.Account+":role/hpad", "shop"
	})
	readOne(t, f, "web")
	readOne(t, f, "web")
	if n := c.Calls()["AssumeRole"]; n != 1 {
		t.Errorf("AssumeRole calls = %d, want 1", n)
	}
	_, f = open(t, 2, func(c *Config) { c.RoleARN = "arn:aws:iam::" + awstest.Account + ":role/admin" })
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "role/admin") {
		t.Errorf("Snapshot() with a forbidden role = %v, want ErrForbidden", err)
	}
}

func TestShortage(t *testing.T) {
	t.Parallel()
	c, f := open(t, 2, nil)
	now := time.Now()
	c.Edit("web", func(g *awstest.Group) { g.Launchable = 3 })
	if err := f.SetReplicas(t.Context(), ref("web"), 6, "", ""); err != nil {
		t.Fatal(err)
	}
	r := await(t, f, "InsufficientCapacity", func(r targets.Reading) bool { return len(r.Notices) == 1 })
	if n := r.Notices[0]; n.Condition != "InsufficientCapacity" || n.Reason != CapacityShortage || !strings.Contains(n.Message, "sufficient m5.large capacity") {
		t.Errorf("notice = %+v, want AWS's message", n)
	}
	if r.SpecReplicas != 6 || r.StatusReplicas != 3 {
		t.Errorf("spec = %d, status = %d, want 6 and 3", r.SpecReplicas, r.StatusReplicas)
	}
	if took := time.Since(now); took < 10*time.Second {
		t.Errorf("AWS was queried after %v", took)
	}
	if n := c.Calls()["DescribeScalingActivities"]; n != 1 {
		t.Errorf("calls for the reason = %d, want 1", n)
	}
	c.Edit("web", func(g *awstest.Group) { g.Launchable = -1 })
	r = await(t, f, "end of the shortage", func(r targets.Reading) bool { return r.StatusReplicas == 6 })
	if len(r.Notices) != 0 {
		t.Errorf("notices after the shortage = %+v, want none", r.Notices)
	}
}

func TestCheck(t *testing.T) {
	c, f := open(t, 2, func(c *Config) { c.HoldDuringRefresh = true })
	c.Add(awstest.Group{Name: "db", Min: 1, Max: 10, Desired: 1})
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web"), ref("db")}); err != nil {
		t.Fatal(err)
	}
	check := func() (string, error) {
		t.Helper()
		found, err := f.Check(t.Context())
		return strings.Join(found, "\n"), err
	}
	all := `uses arn:aws:iam::123456789012:user/hpad in account 123456789012, region eu-central-1
has permission autoscaling:DescribeAutoScalingGroups
has permission autoscaling:SetDesiredCapacity
has permission autoscaling:TerminateInstanceInAutoScalingGroup
has permission autoscaling:DescribeScalingActivities
has permission autoscaling:DescribePolicies
has permission autoscaling:DescribeInstanceRefreshes
has permission ec2:DescribeInstances`
	if found, err := check(); err != nil || found != all {
		t.Errorf("Check() = %v\n%s\nwant\n%s", err, found, all)
	}
	if c.Writes() != 0 || c.Look("web").Desired != 2 {
		t.Error("Check() changed the platform")
	}

	c.Deny("SetDesiredCapacity", "db")
	c.Deny("DescribeInstanceRefreshes", "")
	if _, err := check(); !errors.Is(err, targets.ErrForbidden) ||
		!strings.Contains(err.Error(), `autoscaling:SetDesiredCapacity is missing for "db"`) ||
		!strings.Contains(err.Error(), `autoscaling:DescribeInstanceRefreshes is missing for "db", "web"`) {
		t.Errorf("Check() = %v, want both permissions and their groups", err)
	}
	c.Permit("SetDesiredCapacity", "db")
	c.Permit("DescribeInstanceRefreshes", "")

	c.Deny("TerminateInstanceInAutoScalingGroup", "web")
	c.Deny("DescribeInstances", "")
	found, err := check()
	if err != nil || !strings.Contains(found, `lacks permission autoscaling:TerminateInstanceInAutoScalingGroup for "web", so hpad cannot choose victims`) ||
		!strings.Contains(found, "lacks permission ec2:DescribeInstances, so start times are the times of the first observation") {
		t.Errorf("Check() = %v\n%s", err, found)
	}

	c.Expire()
	if _, err := check(); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("Check() with expired credentials = %v", err)
	}
}

// TestNames checks that a name that AWS rejects, or a target of another fleet, does not prevent
// other targets from being read, and cannot be written.
func TestNames(t *testing.T) {
	c, f := open(t, 2, nil)
	odd := []targets.Ref{ref(""), ref("a:b"), ref(strings.Repeat("x", 256)), ref("new\nline"), {Fleet: "other", Name: "web"}}
	readings, err := f.Snapshot(t.Context(), append(odd, ref("web")))
	if err != nil || readings[ref("web")].Err != nil || readings[ref("web")].SpecReplicas != 2 {
		t.Fatalf("Snapshot() = %v, %v, want the existing group", readings, err)
	}
	for _, one := range odd {
		if got := readings[one].Err; !errors.Is(got, targets.ErrTargetNotFound) {
			t.Errorf("%s: Err = %v, want ErrTargetNotFound", one, got)
		}
		if err := f.SetReplicas(t.Context(), one, 3, "", ""); !errors.Is(err, targets.ErrTargetNotFound) {
			t.Errorf("SetReplicas(%s) = %v, want ErrTargetNotFound", one, err)
		}
	}
	if calls := c.Calls()["DescribeAutoScalingGroups"]; calls != 1 || c.Writes() != 0 {
		t.Errorf("calls = %d and writes = %d, want one read", calls, c.Writes())
	}
	if known := f.Known(); len(known) != 1 {
		t.Errorf("Check() would test %q", known)
	}
}

// TestNoSizes checks that a description without a valid size is an error for reads and writes.
func TestNoSizes(t *testing.T) {
	for _, size := range []string{"DesiredCapacity", "MinSize", "MaxSize"} {
		for _, value := range []string{"", "-1"} {
			if value != "" && size != "DesiredCapacity" {
				continue
			}
			t.Run(size+value, func(t *testing.T) {
				element := regexp.MustCompile("<" + size + ">[0-9]+</" + size + ">")
				instead := ""
				if value != "" {
					instead = "<" + size + ">" + value + "</" + size + ">"
				}
				c, f := altered(t, func(answer string) string { return element.ReplaceAllString(answer, instead) })
				if _, err := f.Snapshot(t.Context(), []targets.Ref{ref("web")}); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), `no sizes for group "web"`) {
					t.Errorf("Snapshot() = %v, want an error because the sizes are missing", err)
				}
				if err := f.SetReplicas(t.Context(), ref("web"), 3, "", ""); !errors.Is(err, targets.ErrTransient) || c.Writes() != 0 {
					t.Errorf("SetReplicas() = %v after %d writes, want ErrTransient and no write", err, c.Writes())
				}
			})
		}
	}
}

// altered returns a fake cloud with a group "web", and a fleet that receives altered responses.
func altered(t *testing.T, alter func(answer string) string) (*awstest.Cloud, *Fleet) {
	t.Helper()
	c := awstest.New(t)
	c.Add(awstest.Group{Name: "web", Min: 1, Max: 10, Desired: 2})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(alter(answer.Body.String())))
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := testConfig(t, c)
	config.Endpoints.AutoScaling = server.URL
	return c, openFleet(t, config, targets.Env{})
}

// TestWriteErrorClasses checks the class of each write error.
func TestWriteErrorClasses(t *testing.T) {
	apiError := func(code, message string) error { return &smithy.GenericAPIError{Code: code, Message: message} }
	dialing := func(err error) error { return &net.OpError{Op: "dial", Err: err} }
	for _, c := range []struct {
		name   string
		err    error
		class  error
		open   bool
		reason string
	}{
		{"at the minimum", apiError(codeValidation, "Currently, desiredSize equals minSize (1). Terminating instance without replacement will violate group's min size constraint."), targets.ErrOutOfRange, false, ""},
		{"no group, other wording", apiError(codeValidation, "Group web not found"), targets.ErrTargetNotFound, false, cloud.GroupNotFound},
		{"no instance", apiError(codeValidation, "Instance Id not found - No managed instance found for instance ID: i-1"), targets.ErrTransient, false, ""},
		{"in use", apiError(codeInUseFault, "in use"), targets.ErrHeld, false, ""},
		{"credentials unreachable", &cloud.TokenError{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, targets.ErrTransient, false, ""},
		{"credentials timeout", &cloud.TokenError{Err: context.DeadlineExceeded}, targets.ErrTransient, false, ""},
		{"credentials canceled", &cloud.TokenError{Err: context.Canceled}, targets.ErrTransient, false, ""},
		{"not sent", dialing(syscall.ECONNREFUSED), targets.ErrTransient, false, ""},
		{"not sent before the deadline", dialing(context.DeadlineExceeded), targets.ErrTransient, false, ""},
		{"connection closed", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, targets.ErrTransient, true, ""},
		{"no response", context.DeadlineExceeded, targets.ErrTransient, true, ""},
	} {
		got := errorClasses.Classify(t.Context(), cloud.Write, fmt.Errorf("call: %w", c.err))
		if !errors.Is(got, c.class) || errors.Is(got, targets.ErrUnknownOutcome) != c.open || !errors.Is(c.class, targets.ErrHeld) && targets.Reason(got) != c.reason {
			t.Errorf("%s: Classify() = %v with reason %q, want %v, unknown outcome: %t, reason %q", c.name, got, targets.Reason(got), c.class, c.open, c.reason)
		}
	}
}

// idsOf returns the ids of a group's instances that are not being terminated.
func idsOf(g awstest.Group) []string {
	var ids []string
	for _, instance := range g.Instances {
		if instance.State != awstest.StateTerminating {
			ids = append(ids, instance.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestRemove(t *testing.T) {
	c, f := open(t, 6, nil)
	all := idsOf(c.Look("web"))
	version := readOne(t, f, "web").Version
	c.Calls()
	if err := f.Remove(t.Context(), ref("web"), []string{all[4], all[1], all[4], "i-gone"}, version, "test decision"); err != nil {
		t.Fatal(err)
	}
	g := c.Look("web")
	want := []string{all[0], all[2], all[3], all[5]}
	if got := idsOf(g); g.Desired != 4 || !slices.Equal(got, want) {
		t.Errorf("desired = %d with instances %v, want 4 with %v", g.Desired, got, want)
	}
	if n := c.Calls()["TerminateInstanceInAutoScalingGroup"]; n != 1 {
		t.Errorf("calls for two instances = %d, want 1", n)
	}
	// A repeated call, as after a lost response, does not lower the size.
	if err := f.Remove(t.Context(), ref("web"), []string{all[4], all[1]}, "", ""); err != nil {
		t.Errorf("Remove() of terminated instances = %v, want nil", err)
	}
	if got := c.Look("web").Desired; got != 4 {
		t.Errorf("desired = %d, want 4", got)
	}
	if n := c.Calls()["TerminateInstanceInAutoScalingGroup"]; n != 0 {
		t.Errorf("calls for terminated instances = %d, want 0", n)
	}
	if err := f.Remove(t.Context(), ref("web"), []string{all[0]}, version, ""); !errors.Is(err, targets.ErrConflict) {
		t.Errorf("Remove() at an outdated version = %v, want ErrConflict", err)
	}
}

func TestRemoveRefused(t *testing.T) {
	c, f := open(t, 3, nil)
	all := idsOf(c.Look("web"))
	c.Edit("web", func(g *awstest.Group) {
		for _, instance := range g.Instances {
			instance.Protected = instance.ID == all[1]
		}
	})
	err := f.Remove(t.Context(), ref("web"), all[:2], "", "")
	var held *targets.HeldError
	if !errors.As(err, &held) || held.Hold.Reason != cloud.InstanceProtected || !strings.Contains(held.Hold.Message, all[1]) || strings.Contains(held.Hold.Message, all[0]) {
		t.Errorf("Remove() of a protected instance = %v, want %s and its id", err, cloud.InstanceProtected)
	}
	c.Edit("web", func(g *awstest.Group) {
		g.Min = 2
		for _, instance := range g.Instances {
			instance.Protected = false
		}
	})
	var outside *targets.OutOfRangeError
	if err := f.Remove(t.Context(), ref("web"), all[:2], "", ""); !errors.As(err, &outside) || *outside.Min != 2 {
		t.Errorf("Remove() below the minimum = %v, want an OutOfRangeError with 2", err)
	}
	c.Edit("web", func(g *awstest.Group) { g.Suspended = []string{"Terminate"} })
	if err := f.Remove(t.Context(), ref("web"), all[:1], "", ""); !errors.As(err, &outside) || *outside.Min != 3 {
		t.Errorf("Remove() with suspended terminations = %v, want an OutOfRangeError with 3", err)
	}
	if got := idsOf(c.Look("web")); !slices.Equal(got, all) || c.Writes() != 0 {
		t.Errorf("instances after rejected removals = %v, want %v", got, all)
	}
	c.Edit("web", func(g *awstest.Group) { g.Suspended = nil })
	c.Deny("TerminateInstanceInAutoScalingGroup", "")
	if err := f.Remove(t.Context(), ref("web"), all[:1], "", ""); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "autoscaling:TerminateInstanceInAutoScalingGroup") {
		t.Errorf("Remove() without the permission = %v, want ErrForbidden", err)
	}
	if err := f.Remove(t.Context(), ref("nobody"), all[:1], "", ""); !errors.Is(err, targets.ErrTargetNotFound) {
		t.Errorf("Remove() from an unknown group = %v, want ErrTargetNotFound", err)
	}
}

// TestTimeout checks that an error caused by the fleet's timeout names the timeout, and that an
// error caused by the end of the context does not.
func TestTimeout(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/begun") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	// A slow host can need 100 ms for the credentials.
	const short, text = 500 * time.Millisecond, "no response within the fleet's timeout of 500ms"
	for _, test := range []struct {
		name, path       string
		timeout, context time.Duration
		named            bool
	}{
		{"the fleet's timeout", "/", short, time.Minute, true},
		{"the context", "/", time.Minute, short, false},
		{"the fleet's timeout during the response", "/begun", short, time.Minute, true},
		{"the context during the response", "/begun", time.Minute, short, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.context)
			defer cancel()
			config := testConfig(t, awstest.New(t))
			config.Endpoints.AutoScaling, config.Timeout = server.URL+test.path, test.timeout
			f := openFleet(t, config, targets.Env{})
			s, err := f.Client(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Get(ctx, s, "web")
			if !errors.Is(err, targets.ErrTransient) || strings.Contains(err.Error(), text) != test.named {
				t.Errorf("Get() = %v, want the fleet's timeout in the error: %v", err, test.named)
			}
		})
	}
}
