package nomad

import (
	"testing"
	"time"
)

// TestGood: what is known of a group is good while its job does not move; with stale,
// once it was read so long after the job moved that no server was that far behind.
func TestGood(t *testing.T) {
	const contact = 200 * time.Millisecond
	now := time.Now()
	then := stamp{modified: 7, summary: 8}
	moved := now.Add(-time.Minute)
	for _, c := range []struct {
		name        string
		stale, want bool
		change      func(known *knownGroup)
	}{
		{"as it was", false, true, func(*knownGroup) {}},
		{"its job moved", false, false, func(known *knownGroup) { known.stamp.summary-- }},
		{"its job went back", false, false, func(known *knownGroup) { known.stamp.modified++ }},
		{"was deployed", false, false, func(known *knownGroup) { known.deployed = true }},
		{"was not settled", false, false, func(known *knownGroup) { known.members = &members{} }},
		{"was settled", false, true, func(known *knownGroup) { known.members = &members{settled: true} }},
		{"read as it moved", false, true, func(known *knownGroup) { known.read = moved }},
		{"too long without a look at it", false, false, func(known *knownGroup) { known.read, known.since = now.Add(-trusted), now.Add(-trusted) }},
		{"stale, read as it moved", true, false, func(known *knownGroup) { known.read = moved }},
		{"stale, a moment too early", true, false, func(known *knownGroup) { known.read = moved.Add(contact + staleness - 1) }},
		{"stale, by a server that had to know", true, true, func(known *knownGroup) { known.read = moved.Add(contact + staleness) }},
		{"stale, its job moved", true, false, func(known *knownGroup) { known.stamp.summary-- }},
		{"stale, by a server farther behind", true, false, func(known *knownGroup) { known.read, known.contact = moved.Add(contact+staleness), contact+1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &survey{session: &session{config: &Config{Stale: c.stale}}, book: newBook(scope{}), began: now}
			known := &knownGroup{stamp: then, read: now.Add(-time.Second), since: moved, contact: contact}
			c.change(known)
			if got := v.good(known, then); got != c.want {
				t.Errorf("good() = %t, want %t", got, c.want)
			}
			if v.good(nil, then) {
				t.Error("nothing known is good")
			}
		})
	}
}

// TestSince: how long a job has not moved is kept over readings of its allocations.
func TestSince(t *testing.T) {
	now := time.Now()
	b, key := newBook(scope{}), groupKey{job: "web", group: "app"}
	enter := func(at stamp, read time.Time) time.Time {
		b.enter(key, &knownGroup{stamp: at, read: read, since: read}, read)
		return b.entryLocked(key).since
	}
	enter(stamp{modified: 1}, now)
	if since := enter(stamp{modified: 1}, now.Add(time.Second)); !since.Equal(now) {
		t.Errorf("a job that did not move has been as it is since %v, want %v", since, now)
	}
	if since := enter(stamp{modified: 2}, now.Add(time.Minute)); !since.Equal(now.Add(time.Minute)) {
		t.Errorf("a job that moved has been as it is since %v", since)
	}
}
