package aws

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/awsasg"
	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/wait"
)

// startMoto starts moto, an imitation of AWS by others, and returns its address.
func startMoto(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("moto_server"); err != nil {
		t.Skip("there is no moto_server to compare with: it comes with moto[server] for Python")
	}
	_, port, _ := net.SplitHostPort(ports.Free(t))
	process, err := child.Start(exec.Command("moto_server", "-H", "127.0.0.1", "-p", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop(syscall.SIGTERM, 10*time.Second) })
	address := "http://127.0.0.1:" + port
	wait.For(t, 2*patience, "answer of moto", func() (string, bool) {
		if process.Ended() {
			t.Skipf("moto_server cannot be run: it ended with %v", process.Command.ProcessState)
		}
		answer, err := http.Get(address + "/moto-api/")
		if err != nil {
			return err.Error(), false
		}
		_ = answer.Body.Close()
		return answer.Status, answer.StatusCode == http.StatusOK
	})
	return address
}

// seen is the part of a reading that is compared.
type seen struct {
	Spec, Status, Min, Max int32
	Held                   bool
	Ready                  []bool
	Located                []bool
	Launched               []bool
	Err                    string
}

func see(r targets.Reading, begun time.Time) seen {
	s := seen{Spec: r.SpecReplicas, Status: r.StatusReplicas, Held: r.Hold != nil}
	if r.Err != nil {
		return seen{Err: targets.Reason(r.Err)}
	}
	s.Min, s.Max = *r.Min, *r.Max
	for n, i := range r.Instances {
		l := r.Locations.At(n)
		s.Ready = append(s.Ready, i.Phase == policy.PhaseRunning && i.Readiness == policy.ReadinessTrue && !i.Deleting)
		s.Located = append(s.Located, l.Name != "" && len(l.Addresses) > 1 && l.Labels["availability_zone"] != "" && l.Labels["instance_type"] != "")
		s.Launched = append(s.Launched, i.StartedAt.After(begun.Add(-time.Minute)) && i.StartedAt.Before(time.Now().Add(time.Minute)))
	}
	return s
}

// TestMoto makes the same changes to groups of the fake server and of moto, and compares the
// readings. Moto has no bounds and no delays, and rejects nothing.
func TestMoto(t *testing.T) {
	t.Parallel()
	moto := startMoto(t)
	cloud := awstest.New(t)
	cloud.Add(awstest.Group{Name: "web", Min: 0, Max: 9, Desired: 2})
	file := cloud.Credentials(t)

	client := autoscaling.New(autoscaling.Options{
		Region: awstest.Region, BaseEndpoint: &moto, Credentials: awscredentials.NewStaticCredentialsProvider("AKIAMOTO", awstest.Secret, ""),
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := client.CreateLaunchConfiguration(ctx, &autoscaling.CreateLaunchConfigurationInput{
		LaunchConfigurationName: aws.String("web"), ImageId: aws.String("ami-12c6146b"), InstanceType: aws.String("m5.large"),
	})
	if err != nil {
		t.Fatalf("create a launch configuration: %v", err)
	}
	_, err = client.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("web"), LaunchConfigurationName: aws.String("web"), MinSize: aws.Int32(0), MaxSize: aws.Int32(9),
		DesiredCapacity: aws.Int32(2), AvailabilityZones: []string{awstest.Region + "a"},
	})
	if err != nil {
		t.Fatalf("create a group: %v", err)
	}

	begun := time.Now()
	ours, theirs := differentialFleet(t, cloud.URL, file), differentialFleet(t, moto, file)
	read := func(f *awsasg.Fleet, name string) targets.Reading {
		t.Helper()
		ref := targets.Ref{Fleet: "cloud", Name: name}
		readings, err := f.Snapshot(t.Context(), []targets.Ref{ref})
		if err != nil {
			t.Fatalf("Snapshot(%s) = %v", name, err)
		}
		return readings[ref]
	}
	agree := func(step, name string) {
		t.Helper()
		if diff := cmp.Diff(see(read(theirs, name), begun), see(read(ours, name), begun)); diff != "" {
			t.Errorf("%s (-moto +ours):\n%s", step, diff)
		}
	}
	both := func(step string, do func(f *awsasg.Fleet, r targets.Reading) error) {
		t.Helper()
		for who, f := range map[string]*awsasg.Fleet{"ours": ours, "moto": theirs} {
			if err := do(f, read(f, "web")); err != nil {
				t.Errorf("%s, %s: %v", step, who, err)
			}
		}
		agree(step, "web")
	}
	ref := targets.Ref{Fleet: "cloud", Name: "web"}
	scale := func(n int32) func(f *awsasg.Fleet, r targets.Reading) error {
		return func(f *awsasg.Fleet, r targets.Reading) error {
			return f.SetReplicas(t.Context(), ref, n, r.Version, "")
		}
	}
	agree("at first", "web")
	agree("no such group", "nobody")
	both("up to 5", scale(5))
	both("down to 3", scale(3))
	both("one taken by name", func(f *awsasg.Fleet, r targets.Reading) error {
		victim := r.Instances[1].ID
		if err := f.Remove(t.Context(), ref, []string{victim}, r.Version, ""); err != nil {
			return err
		}
		if slices.ContainsFunc(read(f, "web").Instances, func(i policy.Instance) bool { return i.ID == victim && !i.Deleting }) {
			return fmt.Errorf("instance %s is still there", victim)
		}
		return nil
	})
	both("down to none", scale(0))
	both("up again", scale(2))
}

// differentialFleet returns a fleet at an address.
func differentialFleet(t *testing.T, address, file string) *awsasg.Fleet {
	t.Helper()
	c := &awsasg.Config{
		Region: awstest.Region, CredentialsFile: file, Timeout: 20 * time.Second,
		Endpoints: awsasg.Endpoints{AutoScaling: address, EC2: address, STS: address},
	}
	c.SetDefaults()
	f := awsasg.New("cloud", c, targets.Env{})
	t.Cleanup(func() { _ = f.Close() })
	return f
}
