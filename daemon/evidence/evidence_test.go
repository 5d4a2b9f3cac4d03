package evidence_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/evidence"
	"github.com/hpad/hpad/policy"
)

// That decisions come out the same, of all vectors and of random inputs, is tested in
// policy.

func TestPack(t *testing.T) {
	in := fleetOf(20)
	in.Observation.Pauses = []policy.Pause{{Direction: policy.Up, Since: in.Now, Message: "paused"}}
	in.Now = in.Now.Add(time.Nanosecond).In(time.FixedZone("", -5400))
	in.Observation.Metrics = append(in.Observation.Metrics, policy.Reading{ValuesMilli: []int64{1 << 62, -1 << 62, 0}}, policy.Reading{ValueMilli: new(int64(-1))})
	want := in.Essential()
	got, err := evidence.Unpack(evidence.Pack([]byte("before"), &in)[len("before"):])
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if zone, offset := got.Now.Zone(); offset != -5400 {
		t.Errorf("now is in zone %q, %d", zone, offset)
	}
}

func TestHeldBy(t *testing.T) {
	in := fleetOf(20)
	in.Observation.Metrics[0].Samples = nil
	in.Observation.SpecReplicas = in.Spec.MaxReplicas + 1 // and so is to be changed
	if !in.Decide().Write {
		t.Fatal("nothing is to be written")
	}
	pauses := []policy.Pause{{Direction: policy.Down, Since: in.Now, Message: "paused by alice"}}
	held, err := evidence.Unpack(evidence.HeldBy(evidence.Pack(nil, &in), pauses))
	if err != nil {
		t.Fatal(err)
	}
	if decision := held.Decide(); decision.Write || decision.HeldBy != policy.HeldByPause {
		t.Errorf("the decision is %+v, want it held by a pause", decision)
	}
}

// Damaged inputs are an error, or other inputs, but nothing worse.
func TestUnpackDamaged(t *testing.T) {
	in := fleetOf(20)
	packed := evidence.Pack(nil, &in)
	for n := range packed {
		if _, err := evidence.Unpack(packed[:n]); err == nil {
			t.Errorf("the first %d bytes of %d were unpacked", n, len(packed))
		}
	}
	if _, err := evidence.Unpack(append(slices.Clone(packed), 0)); err == nil {
		t.Error("a byte too many was not noticed")
	}
	other := slices.Clone(packed)
	other[0]++
	if _, err := evidence.Unpack(other); !errors.Is(err, evidence.ErrOther) {
		t.Errorf("inputs of another version: %v", err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		damaged := slices.Clone(packed)
		for range 1 + random.IntN(4) {
			damaged[4+random.IntN(len(damaged)-4)] = byte(random.Uint32())
		}
		_, _ = evidence.Unpack(damaged)
	}
}
