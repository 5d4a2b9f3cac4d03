package awsasg

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/aws/awstest"
)

// complete adds what AWS says of every group and instance beside what the imitation does.
var complete = strings.NewReplacer(
	"<TerminationPolicies>", `<Tags><member><Key>service</Key><Value>checkout</Value><ResourceId>checkout</ResourceId>`+
		`<ResourceType>auto-scaling-group</ResourceType><PropagateAtLaunch>true</PropagateAtLaunch></member>`+
		`<member><Key>team</Key><Value>payments</Value><ResourceId>checkout</ResourceId>`+
		`<ResourceType>auto-scaling-group</ResourceType><PropagateAtLaunch>true</PropagateAtLaunch></member></Tags>`+
		`<LaunchTemplate><LaunchTemplateId>lt-0123456789abcdef0</LaunchTemplateId><LaunchTemplateName>checkout</LaunchTemplateName><Version>$Latest</Version></LaunchTemplate>`+
		`<TargetGroupARNs><member>arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/checkout/0123456789abcdef</member></TargetGroupARNs>`+
		`<VPCZoneIdentifier>subnet-0123456789abcdef0,subnet-0123456789abcdef1,subnet-0123456789abcdef2</VPCZoneIdentifier>`+
		`<ServiceLinkedRoleARN>arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling</ServiceLinkedRoleARN>`+
		`<EnabledMetrics/><LoadBalancerNames/><TrafficSources><member><Identifier>arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/checkout/0123456789abcdef</Identifier><Type>elbv2</Type></member></TrafficSources>`+
		`<CapacityRebalance>false</CapacityRebalance><TerminationPolicies>`,
	"<ProtectedFromScaleIn>", `<LaunchTemplate><LaunchTemplateId>lt-0123456789abcdef0</LaunchTemplateId><LaunchTemplateName>checkout</LaunchTemplateName><Version>7</Version></LaunchTemplate><ProtectedFromScaleIn>`,
)

// BenchmarkSnapshot reads 5,000 groups of three instances each, none of which
// changes.
func BenchmarkSnapshot(b *testing.B) {
	const groups = 5000
	c := awstest.New(b)
	refs := make([]targets.Ref, groups)
	for n := range refs {
		name := fmt.Sprintf("group-%04d", n)
		c.Add(awstest.Group{Name: name, Max: 10, Desired: 3})
		refs[n] = ref(name)
	}
	replay := &targettest.Replay{Handler: c, Complete: complete}
	server := httptest.NewServer(replay)
	b.Cleanup(server.Close)
	config := testConfig(b, c)
	config.Endpoints = Endpoints{AutoScaling: server.URL, EC2: server.URL, STS: server.URL}
	config.CheckInterval, config.Timeout = time.Hour, time.Minute
	f := openFleet(b, config, targets.Env{Store: &targettest.Store{}})
	round := func() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil || readings[refs[0]].StatusReplicas != 3 {
			b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
		}
	}
	for range 3*groups/instancesPerCall/lookupsPerRound + 1 {
		round()
	}
	replay.Rounds(b, 3*groups, round)
}
