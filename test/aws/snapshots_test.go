package aws

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/aws/awstest"
)

// TestRequestSnapshots checks that awstest decodes the requests recorded in the SDK, which contain
// every parameter of their operation.
func TestRequestSnapshots(t *testing.T) {
	t.Parallel()
	for service, operations := range map[string][]string{
		"autoscaling": {
			"DescribeAutoScalingGroups", "SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup",
			"DescribeScalingActivities", "DescribePolicies", "DescribeInstanceRefreshes",
		},
		"ec2": {"DescribeInstances"},
		"sts": {"GetCallerIdentity", "AssumeRole"},
	} {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/"+service).Output()
		if err != nil {
			t.Fatalf("find the module of %s: %v", service, err)
		}
		for _, operation := range operations {
			path := filepath.Join(strings.TrimSpace(string(dir)), "request_snapshot", operation+".request.snap")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s: %v", operation, err)
				continue
			}
			head, body, _ := strings.Cut(string(text), "\n\nContent-Type: application/x-www-form-urlencoded\n\n")
			if head != "POST /" {
				t.Errorf("%s is sent as %q, want POST /", operation, head)
			}
			unknown, err := awstest.Decode(body)
			// The recorded values are placeholders, even for numbers.
			if err != nil && !strings.Contains(err.Error(), "invalid value") {
				t.Errorf("%s: %v", operation, err)
			}
			if kept := ignored(operation, unknown); len(kept) > 0 {
				t.Errorf("%s: unknown parameters %v", operation, kept)
			}
		}
	}
}

// ignored returns the unknown parameters without those that hpad never sends.
func ignored(operation string, unknown []string) []string {
	if operation != "AssumeRole" {
		return unknown
	}
	var kept []string
	for _, parameter := range unknown {
		name, _, _ := strings.Cut(parameter, ".")
		switch name {
		case "Policy", "PolicyArns", "ProvidedContexts", "SerialNumber", "SourceIdentity", "Tags", "TokenCode", "TransitiveTagKeys":
		default:
			kept = append(kept, parameter)
		}
	}
	return kept
}
