package round

import (
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/hpad/hpad/daemon/redact"
)

// ServiceManager sends the daemon's state to the service manager, as in sd_notify(3). The scheduler
// calls alive and status.
type ServiceManager struct {
	notify   func(state string)
	interval time.Duration
	// line returns the STATUS line.
	line   func() string
	fed    time.Time
	sentAt time.Time

	mu   sync.Mutex
	sent string // the last STATUS line
}

// The STATUS line is updated at most once per statusInterval after a round, and at most once per
// statusIdle if no round ends.
const (
	statusInterval = 5 * time.Second
	statusIdle     = time.Minute
)

// NewServiceManager returns a ServiceManager that calls notify, which may be nil.
func NewServiceManager(notify func(string), watchdog time.Duration, line func() string) *ServiceManager {
	if notify == nil {
		notify, line = func(string) {}, func() string { return "" }
	}
	return &ServiceManager{notify: notify, interval: watchdog, line: func() string { return redact.Text(line()) }}
}

// alive feeds the watchdog, at least twice per interval if the interval is 2 s or longer. The
// scheduler calls it at least once per maxIdle.
func (s *ServiceManager) alive(now time.Time) {
	if s.interval <= 0 || now.Sub(s.fed) < s.interval/2-maxIdle && !now.Before(s.fed) {
		return
	}
	s.fed = now
	s.notify(daemon.SdNotifyWatchdog)
}

// status sends the STATUS line if it changed, at most once per interval.
func (s *ServiceManager) status(now time.Time, interval time.Duration) {
	if since := now.Sub(s.sentAt); since >= 0 && since < interval {
		return
	}
	s.sentAt = now
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.line(); text != s.sent {
		s.sent = text
		s.notify("STATUS=" + text)
	}
}

// Ready reports that startup or a reload has ended. It is safe for concurrent use with status.
func (s *ServiceManager) Ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = s.line()
	s.notify(daemon.SdNotifyReady + "\nSTATUS=" + s.sent)
}

// Reloading reports that a reload has started.
func (s *ServiceManager) Reloading() {
	s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping reports that the daemon has begun to stop.
func (s *ServiceManager) Stopping() { s.notify(daemon.SdNotifyStopping) }

// maxIdle is the scheduler's maximum sleep. It is short, so that a step of the wall clock is
// detected.
const maxIdle = time.Second
