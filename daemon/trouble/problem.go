package trouble

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Problem is what is wrong with something now. The zero value is ready to use:
// nothing is. It is safe for concurrent use.
type Problem struct {
	text atomic.Pointer[string]

	mu       sync.Mutex
	follower Follower
}

// Set keeps the error, or clears it where it is nil, and reports whether its cause is
// news. The fields are what a line of the log has besides.
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

// Exists reports whether something is wrong.
func (p *Problem) Exists() bool { return p.text.Load() != nil }

// Text returns the error's text, empty when nothing is wrong.
func (p *Problem) Text() string {
	if text := p.text.Load(); text != nil {
		return *text
	}
	return ""
}
