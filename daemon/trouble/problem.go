package trouble

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Problem is a present problem. The zero value has no error. It is safe for concurrent use.
type Problem struct {
	text atomic.Pointer[string]

	mu       sync.Mutex
	follower Follower
}

// Set stores or clears the error and reports whether its cause is news. The fields are for the log.
func (p *Problem) Set(err error) (news bool, fields []zap.Field) {
	cause := ""
	if err == nil {
		p.text.Store(nil)
	} else {
		text := Shorten(err.Error())
		p.text.Store(&text)
		cause = Cause(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	news, flapped := p.follower.Follow(cause, time.Now(), false)
	if !news {
		return false, nil
	}
	return true, p.follower.Fields(flapped, func(at time.Time) time.Time { return at })
}

// Exists reports whether there is an error.
func (p *Problem) Exists() bool { return p.text.Load() != nil }

// Text returns the text of the error; empty without an error.
func (p *Problem) Text() string {
	if text := p.text.Load(); text != nil {
		return *text
	}
	return ""
}
