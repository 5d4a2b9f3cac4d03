// Package restart decides when a fleet restarts a failed instance, as the kubelet
// does with containers: at increasing intervals, until the instance has run for a while. It is a
// pure state machine without a clock or side effects.
package restart

import "time"

// Backoff is the configuration of the waits.
type Backoff struct {
	// First is the wait before the first restart. It doubles with each start, up to Longest.
	First, Longest time.Duration
	// Reset is the run time after which an instance is no longer considered failing.
	Reset time.Duration
}

// State is the back-off of one instance. The zero State belongs to an instance that has not
// failed.
type State struct {
	// Since is the time of the last failure or start. The next start is due at Since+Wait.
	Since time.Time     `json:"since"`
	Wait  time.Duration `json:"wait"`
	// Starts is the number of starts since the instance last ran for Backoff.Reset.
	Starts int `json:"starts,omitzero"`
}

// Failed returns the state of an instance that failed at now, after it had run for the time ran.
func (b Backoff) Failed(s State, ran time.Duration, now time.Time) State {
	if s.Wait == 0 || ran >= b.Reset {
		s = State{Wait: b.First}
	}
	s.Since = now
	return s
}

// Started returns the state of an instance that is started again at now.
func (b Backoff) Started(s State, now time.Time) State {
	return State{Since: now, Wait: min(max(2*s.Wait, b.First), b.Longest), Starts: s.Starts + 1}
}

// Recovered reports whether an instance that has run since its last start is considered healthy.
func (b Backoff) Recovered(s State, now time.Time) bool { return now.Sub(s.Since) >= b.Reset }

// Due reports whether the wait is over. The zero State is always due.
func (s State) Due(now time.Time) bool { return now.Sub(s.Since) >= s.Wait }
