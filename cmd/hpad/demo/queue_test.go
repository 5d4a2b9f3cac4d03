package demo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestQueueCountsWaitingTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := NewQueue(prometheus.NewRegistry())
		queue.Put(2)
		<-time.After(time.Second)
		queue.Put(2)
		for range 3 {
			if !queue.Take(t.Context()) {
				t.Fatal("no job")
			}
		}
		want := Stats{Arrived: 4, Taken: 3, Waiting: 1, Waited: 2 * time.Second, LongestWait: time.Second}
		if got := queue.Stats(); got != want {
			t.Errorf("stats = %+v, want %+v", got, want)
		}
	})
}

func TestTakeWaitsForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := NewQueue(prometheus.NewRegistry())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		taken := make(chan bool, 2)
		for range 2 {
			go func() { taken <- queue.Take(ctx) }()
		}
		synctest.Wait()
		queue.Put(1)
		if !<-taken {
			t.Error("a job arrived, and no caller of Take received it")
		}
		start := time.Now()
		if <-taken {
			t.Error("two callers received the same job")
		}
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("Take returned after %v, want 1m", waited)
		}
	})
}
