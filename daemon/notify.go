package daemon

import (
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/hpad/hpad/daemon/redact"
)

// notifier keeps the service manager informed, in the words of sd_notify(3).
// It is used by one goroutine at a time, apart from reloading and ready.
type notifier struct {
	notify   func(state string)
	interval time.Duration
	// line is the STATUS line now.
	line   func() string
	fed    time.Time
	told   string
	toldAt time.Time
}

// statusEvery is how often the STATUS line may change as rounds complete, statusIdle how often
// where none does.
const (
	statusEvery = 5 * time.Second
	statusIdle  = time.Minute
)

// newNotifier returns a notifier that calls notify; nil where nobody is to be informed.
func newNotifier(notify func(string), watchdog time.Duration, line func() string) *notifier {
	if notify == nil {
		notify, line = func(string) {}, func() string { return "" }
	}
	return &notifier{notify: notify, interval: watchdog, line: func() string { return redact.Text(line()) }}
}

// alive feeds the watchdog, at least twice as often as it asks for where that is
// two seconds or more. The scheduler calls it each time it wakes, which is once
// in maxIdle at least: a meal that could wait now might come too late then.
func (n *notifier) alive(now time.Time) {
	if n.interval <= 0 || now.Sub(n.fed) < n.interval/2-maxIdle && !now.Before(n.fed) {
		return
	}
	n.fed = now
	n.notify(daemon.SdNotifyWatchdog)
}

// status sends the STATUS line where it changed and the last look is as long ago: it is one
// at every autoscaler.
func (n *notifier) status(now time.Time, every time.Duration) {
	if since := now.Sub(n.toldAt); since >= 0 && since < every {
		return
	}
	n.toldAt = now
	if text := n.line(); text != n.told {
		n.told = text
		n.notify("STATUS=" + text)
	}
}

func (n *notifier) ready() {
	n.notify(daemon.SdNotifyReady + "\nSTATUS=" + n.line())
}

func (n *notifier) reloading() {
	n.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

func (n *notifier) stopping() { n.notify(daemon.SdNotifyStopping) }

// maxIdle bounds the scheduler's wait for the next tick, so that a step of the wall clock is
// noticed.
const maxIdle = time.Second
