package demo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func testQueue() (*Queue, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return NewQueue(registry), registry
}

// take takes a job that has to be there.
func take(t *testing.T, queue *Queue) Job {
	t.Helper()
	job, ok := queue.Take(t.Context())
	if !ok {
		t.Fatal("no job, want one")
	}
	return job
}

func TestQueueGivesTheOldestJobFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, _ := testQueue()
		queue.Put(2)
		<-time.After(time.Second)
		queue.Put(1)
		for want := range uint64(3) {
			if job := take(t, queue); job.ID != want+1 || job.TimeMillis != 50 || job.CPUMillis != 4 {
				t.Errorf("job %+v, want number %d of 50 ms with 4 ms computing", job, want+1)
			}
		}
		queue.Done(1)
		queue.Done(1)
		queue.Done(99)
		want := Stats{Arrived: 3, Done: 1, Running: 2, Taken: 3, Waited: 2 * time.Second, LongestWait: time.Second}
		if got := queue.Stats(); got != want {
			t.Errorf("stats = %+v, want %+v", got, want)
		}
	})
}

func TestTakeWaitsForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, _ := testQueue()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		taken := make(chan bool, 2)
		for range 2 {
			go func() {
				_, ok := queue.Take(ctx)
				taken <- ok
			}()
		}
		synctest.Wait()
		queue.Put(1)
		if !<-taken {
			t.Error("a job arrived, and nobody got it")
		}
		begun := time.Now()
		if <-taken {
			t.Error("one job was given to two")
		}
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("gave up after %v, want 1m", waited)
		}
	})
}

func TestQueueTakesJobsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, _ := testQueue()
		queue.Put(3)
		take(t, queue)
		take(t, queue)
		queue.Done(2)
		<-time.After(lease)
		queue.Put(0)
		if got := queue.Stats(); got.Waiting != 1 || got.Running != 1 {
			t.Errorf("stats = %+v at the end of the lease, want the job still running", got)
		}
		<-time.After(time.Millisecond)
		queue.Put(0)
		if job := take(t, queue); job.ID != 1 {
			t.Errorf("job %d comes first, want the one that was taken back, 1", job.ID)
		}
		if got := queue.Stats(); got.Done != 1 || got.Waiting != 1 || got.Running != 1 {
			t.Errorf("stats = %+v, want one job each done, waiting and running", got)
		}
	})
}

func TestTakingBackWakesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, _ := testQueue()
		queue.Put(1)
		take(t, queue)
		got := make(chan Job)
		go func() {
			job, _ := queue.Take(t.Context())
			got <- job
		}()
		<-time.After(lease + time.Second)
		queue.Put(0)
		if job := <-got; job.ID != 1 {
			t.Errorf("job %d, want 1", job.ID)
		}
	})
}
