package show_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// TestBriefListShowsTheSame checks that a brief list leads to the same tables and orders as a full
// list.
func TestBriefListShowsTheSame(t *testing.T) {
	now := time.Now()
	d := &apitest.Daemon{}
	add := func(change func(*api.Autoscaler)) {
		view := api.Autoscaler{
			Name: fmt.Sprintf("a-%03d", len(d.List)), Reference: "prod/api", Kind: "nomad", Created: now.Add(-time.Duration(len(d.List)) * time.Minute),
			Spec: policy.Spec{
				MinReplicas: new(int32(2)), MaxReplicas: 9, Behavior: &policy.Behavior{},
				Metrics: []policy.MetricSpec{{Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{AverageValueMilli: new(int64(30_000))}}},
			},
			Status: policy.Status{
				CurrentReplicas: 3, DesiredReplicas: 4,
				Metrics: []policy.MetricStatus{{Type: policy.ExternalMetric, Name: "queue", AverageValueMilli: new(int64(12_000))}},
			},
			Evaluation: api.Evaluation{Last: now.Add(-10 * time.Second), Next: now},
			Instances:  api.Instances{Ready: 3},
			Inputs:     []api.Input{{Source: "prom", Query: "sum(queue)"}},
			Labels:     map[string]string{"hpad.enable": "true"},
			Victims:    []drain.Victim{{}},
		}
		change(&view)
		d.List = append(d.List, view)
	}
	types := []policy.ConditionType{policy.AbleToScale, policy.ScalingActive, policy.ScalingLimited, policy.ScaledToZero, policy.ForeignWriter, policy.Paused, "Deploying"}
	for _, kind := range types {
		for _, is := range []policy.ConditionStatus{policy.ConditionTrue, policy.ConditionFalse, "Unknown"} {
			for _, reason := range []string{"ScaleDownStabilized", "ScaleUpStabilized", "ScalingDisabled", "Other"} {
				for _, ready := range []int{0, 3} {
					add(func(view *api.Autoscaler) {
						view.Status.Conditions = []policy.Condition{{Type: kind, Status: is, Reason: reason, Message: "so it is", Since: now}}
						view.Instances = api.Instances{Ready: ready, Pending: 1}
					})
				}
			}
		}
	}
	for _, change := range []func(*api.Autoscaler){
		func(view *api.Autoscaler) { view.Mode = policy.ModeOff },
		func(view *api.Autoscaler) { view.Pauses = []policy.Pause{{Message: "paused by anna"}} },
		func(view *api.Autoscaler) { view.Evaluation.Unevaluated = true },
		func(view *api.Autoscaler) { view.Evaluation.QuarantinedUntil = now.Add(time.Hour) },
		func(view *api.Autoscaler) { view.Evaluation.Error = "query prometheus: refused" },
		func(view *api.Autoscaler) { view.Evaluation.DryRun = true },
		func(view *api.Autoscaler) { view.Evaluation.StateLost = "lost" },
		func(view *api.Autoscaler) {
			view.Discovery = &api.Discovered{State: api.DiscoveredInvalid, Problem: "hpad.max: none"}
		},
		func(view *api.Autoscaler) { view.Spec.Metrics = nil },
		func(view *api.Autoscaler) { view.Spec.MinReplicas = nil },
	} {
		add(change)
	}
	client := clientOf(t, d)
	whole, brief := collect(t, client.EachAutoscaler(t.Context())), collect(t, client.EachBriefly(t.Context()))
	if len(brief) != len(d.List) || brief[0].Inputs != nil || brief[0].Spec.Behavior != nil || whole[0].Inputs == nil {
		t.Fatalf("%d autoscalers, the first of the brief ones %+v; want %d without inputs", len(brief), brief[0], len(d.List))
	}
	for _, order := range show.Orders {
		show.Sort(whole, order, now)
		show.Sort(brief, order, now)
		for _, wide := range []bool{false, true} {
			if diff := cmp.Diff(table(t, whole, wide, now), table(t, brief, wide, now)); diff != "" {
				t.Errorf("by %s, wide %t (-whole +brief):\n%s", order, wide, diff)
			}
		}
	}
	for i := range whole {
		if diff := cmp.Diff(show.Row(whole[i]), show.Row(brief[i])); diff != "" {
			t.Errorf("%s (-whole +brief):\n%s", whole[i].Name, diff)
		}
	}
}

func table(t *testing.T, views []api.Autoscaler, wide bool, now time.Time) string {
	var text strings.Builder
	if err := show.Autoscalers(&text, slices.Values(views), wide, now); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func collect(t *testing.T, each iter.Seq2[api.Autoscaler, error]) (views []api.Autoscaler) {
	for view, err := range each {
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, view)
	}
	return views
}

// clientOf serves a daemon on a socket and returns a client for it.
func clientOf(t *testing.T, d *apitest.Daemon) *api.Client {
	dir, err := os.MkdirTemp("", "hpad") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "sock")
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	server := api.NewServer(api.NewHandler(d, prometheus.NewRegistry(), api.Full), nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
		_ = os.RemoveAll(dir)
	})
	return api.NewClient(socket)
}
