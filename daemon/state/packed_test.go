package state

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

func TestRecordsAreStoredExactly(t *testing.T) {
	anyTime := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.IntRange(0, 9).Draw(t, "zero") == 0 {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(-1<<34, 1<<34).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	anyEvents := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.ScaleEvent {
		return policy.ScaleEvent{Change: rapid.Int32().Draw(t, "change"), Time: anyTime.Draw(t, "at"), Outdated: rapid.Bool().Draw(t, "outdated")}
	}), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		want := sampleRecord(1)
		want.Memory = policy.Memory{
			Recommendations: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Recommendation {
				return policy.Recommendation{Replicas: rapid.Int32().Draw(t, "replicas"), Time: anyTime.Draw(t, "at")}
			}), 0, 5).Draw(t, "recommendations"),
			ScaleUpEvents:   anyEvents.Draw(t, "up"),
			ScaleDownEvents: anyEvents.Draw(t, "down"),
		}
		missing := []policy.MissingMetric{
			{Type: policy.ExternalMetric, Name: "queue", FirstFailureTime: anyTime.Draw(t, "failed"), Proposal: new(rapid.Int32().Draw(t, "proposal"))},
			{Type: policy.ContainerResourceMetric, Name: "cpu", Task: "app"},
			{Type: policy.ObjectMetric, Name: "lag", Object: "topic/main"},
		}
		if rapid.Bool().Draw(t, "missing") {
			want.Memory.Missing = missing
		}
		sealed, err := sealRecord("a", want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unsealRecord("a", sealed)
		if err != nil {
			t.Fatal(err)
		}
		room := policy.Memory{Recommendations: make([]policy.Recommendation, 3), ScaleDownEvents: make([]policy.ScaleEvent, 9), Missing: want.Memory.Missing}
		UnpackMemory(PackMemory([]byte("before"), want.Memory)[len("before"):], &room)
		if diff := cmp.Diff(want.Memory, room, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("packed in memory (-want +got):\n%s", diff)
		}
		// An empty list comes back as none.
		if diff := cmp.Diff(want, got, cmp.Transformer("none", func(m policy.Memory) policy.Memory {
			if len(m.Recommendations) == 0 {
				m.Recommendations = nil
			}
			if len(m.ScaleUpEvents) == 0 {
				m.ScaleUpEvents = nil
			}
			if len(m.ScaleDownEvents) == 0 {
				m.ScaleDownEvents = nil
			}
			return m
		})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestTruncatedList(t *testing.T) {
	packed := pack([]policy.ScaleEvent{{Change: 300, Time: epoch}, {Change: 2, Time: epoch.Add(time.Hour), Outdated: true}}, (*packer).event)
	for length := range len(packed) {
		list, err := unpack(packed[:length], (*unpacker).event)
		if err == nil && len(list) > 1 || err != nil && !errors.Is(err, errTruncated) {
			t.Errorf("%d bytes: %v, %v", length, list, err)
		}
	}
	if _, err := unpack([]byte{1, 2, 0x80}, (*unpacker).recommendation); !errors.Is(err, errTruncated) {
		t.Errorf("a truncated number: %v", err)
	}
}
