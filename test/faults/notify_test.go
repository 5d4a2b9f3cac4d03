package faults

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hpad/hpad/test/wait"
)

// receiver stores notifications.
type receiver struct {
	mu  sync.Mutex
	got []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.got = append(r.got, string(text))
	r.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// received returns the number of notifications about an autoscaler.
func (r *receiver) received(name string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.got {
		if strings.Contains(text, name) {
			n++
		}
	}
	return n
}

// TestReceiver makes receivers misbehave. hpad must continue to evaluate, must count and log lost
// notifications, and must send new notifications to a receiver that has recovered.
func TestReceiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60, 2)
	name, number := w.autoscaler("steady", "steady")
	faults := map[string]misbehavior{
		"hangs": hang, "resets connections": func(_ *front, w http.ResponseWriter, _ *http.Request) { cut(w) }, "returns 500": respond(500, "text/plain", "boom"),
		"returns 429": respond(429, "text/plain", "slow down", "Retry-After", "1"),
		"redirects":   respond(302, "text/plain", "", "Location", "https://login.example.org/"),
		"returns 404": respond(404, "text/html", loginPage), "returns gigabytes": func(f *front, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(f, w, r)
		},
		"refuses connections": nil,
	}
	// These receivers send a success status, so hpad treats the notification as delivered.
	taken := map[string]misbehavior{"trickles after its status": trickle, "returns a page with 200": respond(200, "text/html", loginPage)}
	maps.Copy(faults, taken)
	type one struct {
		table string
		*front
		*receiver
	}
	receivers := map[string]*one{}
	for fault := range faults {
		r := &one{table: fmt.Sprintf("r%d", len(receivers)), receiver: &receiver{}}
		r.front = newFront(t, r.receiver)
		fmt.Fprintf(&w.config, "[notifications.%s]\nurl = %q\nevents = [\"changed\"]\ntimeout = \"1s\"\ngive_up_after = \"3s\"\nqueue = 2\n", r.table, r.url())
		receivers[fault] = r
	}
	p := w.start()
	p.Passes(w.steady[0], 2)
	use := uses(t, p)
	end := w.watch(t, p)
	for fault, r := range receivers {
		if faults[fault] == nil {
			r.close()
		} else {
			r.misbehave(faults[fault])
		}
	}
	count := w.Truth(number).Count
	change := func() {
		t.Helper()
		count ^= 1
		w.Ask(number, count)
		wait.For(t, patience, "changed count", func() (string, bool) {
			now := w.Truth(number).Count
			return fmt.Sprintf("%d, want %d", now, count), now == count
		})
	}
	for range 7 { // more than the capacity of the queues
		change()
	}
	for fault, r := range receivers {
		t.Run(fault, func(t *testing.T) {
			if taken[fault] != nil {
				wait.For(t, patience, "delivered notification", func() (string, bool) {
					sent := p.Metric("hpad_notifications_sent_total", r.table)
					return fmt.Sprintf("%v sent, %d arrived", sent, r.hit()), sent > 0 && r.hit() > 0
				})
				return
			}
			wait.For(t, patience, "reported loss", func() (string, bool) {
				lost := p.Metric("hpad_notifications_failed_total", r.table) + p.Metric("hpad_notifications_dropped_total", r.table)
				_, ready, err := p.Ask(http.MethodGet, "/-/ready")
				return fmt.Sprintf("%v lost, log %v; %s, %v", lost, strings.Contains(p.Said(), r.table), ready, err), lost > 0 && strings.Contains(p.Said(), r.table)
			})
			if sent, got := p.Metric("hpad_notifications_sent_total", r.table), r.received(name); sent > 0 || got > 0 {
				t.Errorf("got %v sent and %d delivered notifications, want none", sent, got)
			}
		})
	}
	if now := uses(t, p); now.Resident > use.Resident+256<<20 {
		t.Errorf("memory of hpad = %d MiB, before the test = %d MiB", now.Resident>>20, use.Resident>>20)
	}
	for fault, r := range receivers {
		if faults[fault] == nil {
			r.listen()
		}
		r.heal()
	}
	wait.For(t, patience, "empty queues", func() (string, bool) {
		var waiting float64
		for _, r := range receivers {
			waiting += p.Metric("hpad_notifications_waiting", r.table)
		}
		return fmt.Sprint(waiting), waiting == 0
	})
	change()
	for fault, r := range receivers {
		wait.For(t, patience, "notification from the receiver that "+fault, func() (string, bool) {
			got, sent := r.received(name), p.Metric("hpad_notifications_sent_total", r.table)
			return fmt.Sprintf("%d arrived, %v sent", got, sent), got > 0 && sent > 0
		})
	}
	end()
	wantNoLeak(t, p, use)
	p.Stop()
}
