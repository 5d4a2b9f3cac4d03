package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
// one. The first event is what changed since the version that the request names.
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
	since := r.Header.Get("Last-Event-ID")
	if since == "" {
		since = r.URL.Query().Get("since")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	tell := &telling{to: w, control: http.NewResponseController(w), name: r.URL.Query().Get("name")}
	ticker := time.NewTicker(streamEvery)
	defer ticker.Stop()
	for begun := time.Now(); time.Since(begun) < streamLasts; {
		l := p.boards.at(zoneOf(r)).look(since)
		if err := tell.look(&l); err != nil {
			return // the client is gone, or does not read
		}
		since = l.Version
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
	name    string
	notices string
	silent  int
	begun   bool
}

// look tells what a look has that is new.
func (t *telling) look(l *look) error {
	if t.name != "" {
		var rows []*row
		for _, r := range l.Rows {
			if r.Name == t.name {
				rows = append(rows, r)
			}
		}
		l.Rows, l.Gone, l.Fleets, l.Notices = rows, nil, nil, nil
	}
	notices, err := json.Marshal(l.Notices)
	if err != nil {
		return err
	}
	t.silent++
	if len(l.Rows)+len(l.Gone) == 0 && t.notices == string(notices) && t.begun {
		if t.silent < streamBeats {
			return nil
		}
		return t.write("event: beat\ndata:\n\n")
	}
	t.notices, t.begun = string(notices), true
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return t.write(fmt.Sprintf("id: %s\ndata: %s\n\n", l.Version, redact.JSON(data)))
}

func (t *telling) write(text string) error {
	t.silent = 0
	_ = t.control.SetWriteDeadline(time.Now().Add(streamWrite)) // tests' writers have none
	if _, err := t.to.Write([]byte(text)); err != nil {
		return err
	}
	return t.control.Flush()
}
