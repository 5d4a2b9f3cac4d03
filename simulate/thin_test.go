package simulate

import (
	"slices"
	"testing"
	"time"
)

func TestThin(t *testing.T) {
	r := Result{Rows: []Row{{}}}
	for i := range 11 {
		r.Times, r.Demand = append(r.Times, time.Unix(int64(i), 0)), append(r.Demand, float64(i))
		r.Rows[0].Replicas, r.Rows[0].Ready = append(r.Rows[0].Replicas, int32(i)), append(r.Rows[0].Ready, int32(i))
	}
	r.Thin(11)
	if len(r.Times) != 11 {
		t.Errorf("%d instants of 11 with a limit of 11", len(r.Times))
	}
	r.Thin(3)
	want := []int32{0, 5, 10}
	if !slices.Equal(r.Rows[0].Replicas, want) || !slices.Equal(r.Rows[0].Ready, want) || !slices.Equal(r.Demand, []float64{0, 5, 10}) || r.Times[1].Unix() != 5 {
		t.Errorf("instants = %v, %v, %+v, want %v", r.Times, r.Demand, r.Rows, want)
	}
}
