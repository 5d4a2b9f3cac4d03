package process

import (
	"context"
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/guard"
)

const (
	// relayInterval is the time between two relays of new output.
	relayInterval = 200 * time.Millisecond
	// relayBytes limits the output that is relayed in one interval, for all instances together. Each
	// instance has an equal share of at least minShare.
	relayBytes = 2 << 20
	minShare   = 4 << 10
	// relayEnd is how long a relay that stops waits for a writer.
	relayEnd = time.Second
)

// relay relays the output of all instances of a launcher. The kernel reports which files grow, so
// that silent processes have no cost. If the kernel cannot watch a file, because the limit of
// fs.inotify is reached, relay checks the file at each interval. Only the goroutine of relayAll waits for
// the writers.
type relay struct {
	// watching is nil if the kernel cannot watch files. fd is its descriptor.
	watching *os.File
	fd       int
	wake     chan struct{}
	// ctx ends when the relay must stop, and stopped is closed when it has stopped.
	ctx     context.Context
	cancel  context.CancelFunc
	stopped chan struct{}

	mu sync.Mutex
	// watched contains outputs by the number of their watch, unwatched the outputs without a watch,
	// and changed the outputs to relay.
	watched   map[int32]*output
	unwatched map[*output]bool
	changed   map[*output]bool
}

func newRelay() *relay {
	r := &relay{
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		watched: map[int32]*output{}, unwatched: map[*output]bool{}, changed: map[*output]bool{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
		r.fd, r.watching = fd, os.NewFile(uintptr(fd), "inotify")
		guard.Go(func() { guard.Loop(r.ctx, r.watchAll) })
	}
	guard.Go(func() { guard.Loop(r.ctx, r.pollAll) })
	guard.Go(func() {
		defer close(r.stopped)
		guard.Loop(r.ctx, r.relayAll)
	})
	return r
}

// stop relays the output that exists, and returns when it has been written or after relayEnd.
func (r *relay) stop() {
	r.cancel()
	if r.watching != nil {
		_ = r.watching.Close()
	}
	select {
	case <-r.stopped:
	case <-time.After(relayEnd):
	}
}

// add starts to relay an output.
func (r *relay) add(o *output) {
	r.mu.Lock()
	if o.file != nil {
		var err error = unix.ENOSYS
		if r.watching != nil {
			o.watch, err = unix.InotifyAddWatch(r.fd, o.path, unix.IN_MODIFY)
		}
		if err == nil {
			r.watched[int32(o.watch)] = o
		} else {
			r.unwatched[o] = true
		}
	}
	r.mu.Unlock()
	r.mark(o)
}

func (r *relay) forget(o *output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unwatched, o)
	if r.watched[int32(o.watch)] == o {
		delete(r.watched, int32(o.watch))
		_, _ = unix.InotifyRmWatch(r.fd, uint32(o.watch))
	}
}

// mark schedules the relay of an output.
func (r *relay) mark(o *output) {
	r.mu.Lock()
	r.changed[o] = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// all returns all outputs with a file.
func (r *relay) all() []*output {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(r.unwatched)), maps.Values(r.watched))
}

// watchAll marks the files that grow, until the relay stops.
func (r *relay) watchAll() {
	events := make([]byte, 16<<10)
	for {
		n, err := r.watching.Read(events)
		if err != nil {
			return
		}
		for o := range r.grown(events[:n]) {
			r.mark(o)
		}
		select {
		case <-time.After(relayInterval):
		case <-r.ctx.Done():
			return
		}
	}
}

// grown returns the outputs of events.
func (r *relay) grown(events []byte) map[*output]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[*output]bool{}
	for len(events) >= unix.SizeofInotifyEvent {
		watch, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		if o := r.watched[watch]; o != nil {
			found[o] = true
		}
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for _, o := range r.watched {
				found[o] = true
			}
		}
		events = events[min(len(events), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(events[12:]))):]
	}
	return found
}

// pollAll checks the files without a watch, until the relay stops.
func (r *relay) pollAll() {
	tick := time.NewTicker(relayInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		all := slices.Collect(maps.Keys(r.unwatched))
		r.mu.Unlock()
		for _, o := range all {
			r.mark(o)
		}
	}
}

// relayAll relays new output until the relay stops, and then the rest.
func (r *relay) relayAll() {
	buffer := make([]byte, maxLine)
	for r.ctx.Err() == nil || r.pending() {
		r.relayOnce(buffer)
		select {
		case <-time.After(relayInterval):
		case <-r.ctx.Done():
			continue
		}
		select {
		case <-r.wake:
		case <-r.ctx.Done():
		}
	}
}

// relayOnce relays a part of the new output of each instance.
func (r *relay) relayOnce(buffer []byte) {
	r.mu.Lock()
	due := r.changed
	r.changed = map[*output]bool{}
	r.mu.Unlock()
	for o := range due {
		if o.relayPart(max(minShare, relayBytes/len(due)), buffer) {
			r.mark(o)
		} else if o.hasEnded() {
			r.forget(o)
		}
	}
}

func (r *relay) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.changed) > 0
}
