package awsasg

import (
	"errors"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/aws/awstest"
)

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
	all := `is arn:aws:iam::123456789012:user/hpad in account 123456789012, region eu-central-1
may autoscaling:DescribeAutoScalingGroups
may autoscaling:SetDesiredCapacity
may autoscaling:TerminateInstanceInAutoScalingGroup
may autoscaling:DescribeScalingActivities
may autoscaling:DescribePolicies
may autoscaling:DescribeInstanceRefreshes
may ec2:DescribeInstances`
	if found, err := check(); err != nil || found != all {
		t.Errorf("Check() = %v\n%s\nwant\n%s", err, found, all)
	}
	if c.Writes() != 0 || c.Look("web").Desired != 2 {
		t.Error("Check() changed something")
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
	if err != nil || !strings.Contains(found, `may not autoscaling:TerminateInstanceInAutoScalingGroup for "web", so it cannot choose victims`) ||
		!strings.Contains(found, "may not ec2:DescribeInstances, so start times count from when an instance is first seen") {
		t.Errorf("Check() = %v\n%s", err, found)
	}

	c.Expire()
	if _, err := check(); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("Check() with expired credentials = %v", err)
	}
}

// TestCheckProblems: what readings do without is in a check's findings too.
func TestCheckProblems(t *testing.T) {
	c, f := open(t, 2, nil)
	c.Deny("DescribePolicies", "")
	readOne(t, f, "web")
	if found, err := f.Check(t.Context()); err != nil || !strings.Contains(strings.Join(found, "\n"), "scaling policies are not known: ") {
		t.Errorf("Check() = %q, %v, want what is not known", found, err)
	}
}
