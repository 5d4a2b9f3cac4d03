package cluster

import (
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/policy"
)

// TestCommandIn checks that the length of a pause of all autoscalers does not depend on the wall clocks
// of the members if a member reads the command soon after it was written, and that a pause is never
// longer than requested.
func TestCommandIn(t *testing.T) {
	const length = 5 * time.Minute
	for _, test := range []struct {
		name   string
		began  time.Duration // before now, by the clock of the member that wrote the command
		length time.Duration
		unread time.Duration
		want   time.Duration // 0 means that the pause is not active
	}{
		{"equal clocks", time.Second, length, 2 * time.Second, length - time.Second},
		{"clock of the writer is behind", time.Hour, length, 2 * time.Second, length - 2*time.Second},
		{"clock of the writer is ahead", -time.Hour, length, 2 * time.Second, length},
		{"after an outage", time.Minute, length, 2 * time.Minute, length - time.Minute},
		{"after an outage, behind", time.Hour, length, 2 * time.Minute, length - 2*time.Minute},
		{"after its end", 10 * time.Minute, length, 20 * time.Minute, 0},
		{"first view", time.Minute, length, math.MaxInt64, length - time.Minute},
		{"first view after its end", time.Hour, length, math.MaxInt64, 0},
		{"without an end", time.Hour, 0, math.MaxInt64, math.MaxInt64},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text, err := json.Marshal(command{ID: "1", Pause: &policy.Pause{Since: time.Now().Add(-test.began)}, For: test.length})
				if err != nil {
					t.Fatal(err)
				}
				last, err := commandIn(View{Fleets: map[string]Ownership{pauseMark: {Configuration: string(text)}}}, test.unread)
				if err != nil {
					t.Fatal(err)
				}
				pause, left := last.active()
				switch {
				case (pause != nil) != (test.want > 0):
					t.Errorf("pause = %+v, want active: %t", pause, test.want > 0)
				case pause != nil && test.length == 0 && (!pause.Until.IsZero() || left != 0):
					t.Errorf("end = %s, want none", pause.Until)
				case pause != nil && test.length > 0 && (left != test.want || !pause.Until.Equal(time.Now().Add(test.want))):
					t.Errorf("length = %s, want %s", left, test.want)
				}
			})
		})
	}
	if _, err := commandIn(View{Fleets: map[string]Ownership{pauseMark: {Configuration: "{"}}}, 0); err == nil {
		t.Error("an invalid command is not an error")
	}
}
