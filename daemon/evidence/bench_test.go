package evidence_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/evidence"
	"github.com/hpad/hpad/policy"
)

var benchNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fleetOf are the inputs of a decision about n instances with times as a platform has
// them, of which a fifth are in their initialization period.
func fleetOf(n int) policy.Inputs {
	random := rand.New(rand.NewPCG(1, 2))
	percent := int32(60)
	in := policy.Inputs{
		Now: benchNow,
		Settings: policy.Settings{
			Tolerance: 0.1, DownscaleStabilization: 5 * time.Minute,
			CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second, ScaleToZero: true,
		},
		Spec: policy.Default(policy.Spec{
			MaxReplicas: int32(2 * n), Behavior: &policy.Behavior{},
			Metrics: []policy.MetricSpec{{
				Type: policy.ResourceMetric, Name: "cpu",
				Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &percent},
			}},
		}),
		Observation: policy.Observation{SpecReplicas: int32(n), StatusReplicas: int32(n)},
	}
	samples := make([]policy.Sample, n)
	for i := range n {
		age := time.Hour + time.Duration(random.Int64N(int64(24*time.Hour)))
		if i >= n-n/5 {
			age = time.Duration(random.Int64N(int64(4 * time.Minute)))
		}
		started := benchNow.Add(-age)
		in.Observation.Instances = append(in.Observation.Instances, policy.Instance{
			ID: "3fa85f64-5717-4562-b3fc-" + strconv.Itoa(100_000_000_000+i), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue,
			StartedAt: started, ReadinessChanged: started.Add(time.Duration(random.Int64N(int64(20 * time.Second)))),
			Tasks: []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 1000}, {Resource: "memory", Milli: 1 << 40}}}},
		})
		samples[i] = policy.Sample{
			Milli: 300 + random.Int64N(700), OK: true, At: benchNow.Add(-time.Duration(random.Int64N(int64(15 * time.Second)))), Window: 30 * time.Second,
		}
	}
	in.Observation.Metrics = []policy.Reading{{Samples: samples}}
	for i := range 40 {
		now := benchNow.Add(-time.Duration(40-i) * 15 * time.Second)
		settled := policy.Settle(policy.Decide(in.Settings, in.Spec, in.Memory, in.Status, in.Observation, now), policy.Outcome{}, now)
		in.Memory, in.Status = settled.Memory, settled.Status
	}
	return in
}

func BenchmarkPack(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run("instances="+strconv.Itoa(n), func(b *testing.B) {
			in := fleetOf(n)
			var packed []byte
			b.ReportAllocs()
			for b.Loop() {
				packed = evidence.Pack(packed[:0], &in)
			}
			b.ReportMetric(float64(len(packed)), "bytes")
			text, err := json.Marshal(in.Decide().Explained())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(text)), "bytes-of-the-decision")
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run("instances="+strconv.Itoa(n), func(b *testing.B) {
			in := fleetOf(n)
			packed := evidence.Pack(nil, &in)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := evidence.Unpack(packed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
