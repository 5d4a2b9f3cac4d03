package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/redact"
)

// The bounds of streams. A page holds one while it is seen; browsers that get none ask again
// and again for what changed, which is what the stream would have told.
const (
	// maxStreams bounds the streams of all clients together; api.Clients bounds those of each.
	maxStreams = 64
	// streamEvery is how often a stream tells what changed; streamBeats how often it tells
	// that nothing did, so that proxies keep it and the page knows that hpad runs.
	streamEvery = time.Second
	streamBeats = 10
	// streamWrite is how long a client may take to read what it is told, and streamLasts
	// how long a stream is: the page opens the next one.
	streamWrite = 30 * time.Second
	streamLasts = 30 * time.Minute
)

// streams are those open now.
type streams struct {
	open    *atomic.Int64
	clients *api.Clients
	// done ends all of them.
	done  context.Context //nolint:containedctx // it is the life of the page
	close context.CancelFunc
}

func newStreams() streams {
	done, end := context.WithCancel(context.Background())
	return streams{new(atomic.Int64), new(api.Clients), done, end}
}

// changes tells what changes, as long as the client listens: of all rows, or with "name" of
// one. The first event has all rows.
func (p *Page) changes(w http.ResponseWriter, r *http.Request) {
	defer p.streams.open.Add(-1)
	end, ok := p.streams.clients.Stream(r)
	if ok {
		defer end()
	}
	if p.streams.open.Add(1) > maxStreams || !ok {
		w.Header().Set("Retry-After", "60")
		writeError(w, http.StatusServiceUnavailable, "too many pages listen already: this one has to ask")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	tell := &telling{to: w, control: http.NewResponseController(w), name: r.URL.Query().Get("name")}
	ticker := time.NewTicker(streamEvery)
	defer ticker.Stop()
	for begun := time.Now(); time.Since(begun) < streamLasts; {
		if err := tell.look(p.board.look(zoneOf(r))); err != nil {
			return // the client is gone, or does not read
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-p.streams.done.Done():
			return
		}
	}
}

// telling is one stream.
type telling struct {
	to      http.ResponseWriter
	control *http.ResponseController
	// name is the autoscaler that it is about; empty for all.
	name   string
	last   *look
	silent int
}

// look sends the changes since the last look.
func (t *telling) look(l *look) error {
	t.silent++
	send := t.last == nil
	changes := l
	if t.last != l {
		changes = l.since(t.last)
		send = send || len(changes.Rows)+len(changes.Gone) > 0 || !slices.Equal(l.Notices, t.last.Notices)
	}
	if t.name != "" {
		changes = changes.of(t.name)
		send = send && (t.last == nil || len(changes.Rows) > 0)
	}
	t.last = l
	if !send {
		if t.silent < streamBeats {
			return nil
		}
		return t.write("event: beat\ndata:\n\n")
	}
	data, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	return t.write(fmt.Sprintf("data: %s\n\n", redact.JSON(data)))
}

func (t *telling) write(text string) error {
	t.silent = 0
	_ = t.control.SetWriteDeadline(time.Now().Add(streamWrite)) // tests' writers have none
	if _, err := t.to.Write([]byte(text)); err != nil {
		return err
	}
	return t.control.Flush()
}
