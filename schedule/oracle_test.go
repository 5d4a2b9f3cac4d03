package schedule

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/soak"
)

// oracle contains the local minutes of a segment of time.
type oracle struct {
	wall            []int64 // by minute of the segment
	lowest, highest int64
	// Both slices are indexed by local minute minus lowest. first is the first minute of the
	// segment whose local time is at or after the index. last is the minute after the last one
	// whose local time is before the index.
	first, last []int
}

func newOracle(from time.Time, minutes int, zone *time.Location) oracle {
	wall := make([]int64, minutes)
	for i := range wall {
		_, offset := from.Add(time.Duration(i) * time.Minute).In(zone).Zone()
		wall[i] = (from.Unix()+int64(offset))/60 + int64(i)
	}
	o := oracle{wall: wall, lowest: slices.Min(wall), highest: slices.Max(wall)}
	o.first, o.last = make([]int, o.highest-o.lowest+1), make([]int, o.highest-o.lowest+1)
	for w, i := o.lowest, 0; i < minutes; i++ {
		for ; w <= wall[i]; w++ {
			o.first[w-o.lowest] = i
		}
	}
	for w, i := o.highest, minutes-1; i >= 0; i-- {
		for ; w > wall[i]; w-- {
			o.last[w-o.lowest] = i + 1
		}
	}
	return o
}

// windows returns the first minute of each window, and the minute after its last one. isStart
// reports whether a window starts at a local minute.
func (o oracle) windows(c Config, isStart func(time.Time) bool, length time.Duration) (found [][2]int) {
	starts := func(w int64) bool { return isStart(time.Unix(w*60, 0).UTC()) }
	if c.Cron != "" {
		fields := strings.Fields(c.Cron)
		for _, i := range o.cron(starts, fields[0][0] == '*' || fields[1][0] == '*') {
			found = append(found, [2]int{i, i + int(c.Duration/time.Minute)})
		}
		return found
	}
	for w := o.lowest; w <= o.highest; w++ {
		if !starts(w) {
			continue
		}
		first, end := o.first[w-o.lowest], len(o.wall)
		if to := w + int64(length/time.Minute); to <= o.highest {
			end = o.last[to-o.lowest]
		}
		if first < end {
			found = append(found, [2]int{first, end})
		}
	}
	return found
}

// cron returns the minutes of the segment at which Debian's cron starts a job. After a change of the
// clock by up to 3 hours, it does not repeat jobs without a wildcard, and makes up for skipped ones.
func (o oracle) cron(starts func(int64) bool, wildcard bool) (found []int) {
	reached := o.wall[0] - 1
	for i, now := range o.wall {
		if i > 0 {
			if shift := now - o.wall[i-1] - 1; wildcard || max(shift, -shift) > 180 {
				reached = now - 1
			}
		}
		due := false
		for ; reached < now; reached++ {
			due = due || starts(reached+1)
		}
		if due {
			found = append(found, i)
		}
	}
	return found
}

// mark reports for each minute of the segment whether it is in a window that is extended by lead.
func (o oracle) mark(windows [][2]int, lead time.Duration) []bool {
	active := make([]bool, len(o.wall))
	for _, w := range windows {
		for i := max(0, w[0]-int(lead/time.Minute)); i < min(w[1], len(o.wall)); i++ {
			active[i] = true
		}
	}
	return active
}

// randomRule returns a random schedule with a naive test of its starts.
func randomRule(r *rand.Rand, zone string, near time.Time) (c Config, isStart func(time.Time) bool, length time.Duration) {
	one := int32(1)
	c = Config{Name: "x", Zone: zone, MinReplicas: &one}
	if r.IntN(2) == 0 {
		c.Ramp = time.Duration(r.IntN(90)) * time.Minute
	}
	hour, minute := []int{0, 1, 2, 3, 23, r.IntN(24)}[r.IntN(6)], []int{0, 15, 30, 59, r.IntN(60)}[r.IntN(5)]
	excepted := near.AddDate(0, 0, r.IntN(5)-2).Format(time.DateOnly)
	weekday := func(w int) bool { return true }
	if r.IntN(2) == 0 {
		low, high := r.IntN(7), r.IntN(7)
		weekday = func(w int) bool { return (w-low+7)%7 <= (high-low+7)%7 }
		names := strings.Fields("sun mon tue wed thu fri sat")
		c.Days = []string{names[low] + "-" + names[high]}
	}
	switch kind := r.IntN(5); {
	case kind < 2:
		c.From = fmt.Sprintf("%02d:%02d", hour, minute)
		length = time.Duration(1+r.IntN(1440)) * time.Minute
		c.To = time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC).Add(length).Format("15:04")
		c.Except = []string{excepted}
		return c, func(t time.Time) bool {
			return t.Hour() == hour && t.Minute() == minute && weekday(int(t.Weekday())) && t.Format(time.DateOnly) != excepted
		}, length
	case kind == 2:
		start := near.UTC().Truncate(day).Add(time.Duration(r.IntN(1440)-720) * time.Minute)
		length = time.Duration(1+r.IntN(4000)) * time.Minute
		c.Days, c.Start, c.End = nil, start.Format("2006-01-02 15:04"), start.Add(length).Format("2006-01-02 15:04")
		return c, start.Equal, length
	}
	c.Days, c.Except = nil, []string{excepted}
	c.Duration = time.Duration(1+r.IntN([]int{30, 120, 3000, 7 * 1440}[r.IntN(4)])) * time.Minute
	step, month := 1+r.IntN(50), int(near.Month())
	dom, dow := 1+r.IntN(31), r.IntN(7)
	fields := []string{fmt.Sprintf("%d-59/%d", minute, step), fmt.Sprint(hour), "*", fmt.Sprintf("%d,%d", month, month%12+1), "*"}
	if r.IntN(3) == 0 {
		minute, fields[0] = 0, fmt.Sprintf("*/%d", step)
	}
	inHour := func(h int) bool { return h == hour }
	if r.IntN(3) == 0 {
		fields[1], inHour = "*/5", func(h int) bool { return h%5 == 0 }
	}
	onDay := func(time.Time) bool { return true }
	switch r.IntN(4) {
	case 0:
		fields[2], fields[4] = fmt.Sprint(dom), fmt.Sprint(dow)
		onDay = func(t time.Time) bool { return t.Day() == dom || int(t.Weekday()) == dow }
	case 1:
		fields[2], fields[4] = "*/2", fmt.Sprint(dow)
		onDay = func(t time.Time) bool { return t.Day()%2 == 1 && int(t.Weekday()) == dow }
	case 2:
		fields[4] = "1-5"
		onDay = func(t time.Time) bool { return t.Weekday() != time.Sunday && t.Weekday() != time.Saturday }
	}
	c.Cron = strings.Join(fields, " ")
	return c, func(t time.Time) bool {
		return t.Minute() >= minute && (t.Minute()-minute)%step == 0 && inHour(t.Hour()) && onDay(t) &&
			(int(t.Month()) == month || int(t.Month()) == month%12+1) && t.Format(time.DateOnly) != excepted
	}, 0
}

// zones returns the names of all zones of Go's time zone database.
func zones(t *testing.T) (names []string) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") {
			names = append(names, file.Name)
		}
	}
	return names
}

var epoch, epochEnd = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC)

// clockOf returns the offsets of a zone in a segment and the instants of their changes. A rule uses
// nothing else of a zone. For a segment without a change, it returns the offset and the year.
func clockOf(zone *time.Location, first time.Time) string {
	var changes [][2]int64
	rule := Rule{zone: zone}
	for at, limit := first.Add(-before), first.Add(tested+after); at.Before(limit); {
		offset := int64(rule.offset(at))
		if last := len(changes) - 1; last < 0 || changes[last][1] != offset {
			changes = append(changes, [...]int64{at.Unix(), offset})
		}
		if _, at = rule.period(at); at.IsZero() {
			break
		}
	}
	if len(changes) == 1 {
		return fmt.Sprint(first.Year(), changes[0][1])
	}
	return fmt.Sprint(changes)
}

const (
	// tested is the length of a segment that is compared. The oracle computes before and after it too,
	// because windows that begin before can last into the segment.
	tested = 16 * day
	before = 9 * day
	after  = 3 * day
)

// TestOracle compares each minute of rules with an oracle, in all zones from 2020 to 2040. It compares
// segments around the changes of the clock, and for each offset and year a segment without a change. In
// segments with the same clock, rules are the same. By default, it compares a thirtieth of them.
func TestOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r, minutes, segments, clocks := rand.New(rand.NewPCG(seed, 0)), 0, 0, map[string]bool{}
	rules, part := soak.Rounds(1, 2), soak.Rounds(30, 1)
	for _, name := range zones(t) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for first := epoch; first.Before(epochEnd); first = first.Add(tested) {
			clock := clockOf(zone, first)
			if clocks[clock] {
				continue
			}
			if clocks[clock] = true; r.IntN(part) > 0 {
				continue
			}
			segments++
			near := first.Add(tested / 2)
			if _, change := first.In(zone).ZoneBounds(); change.After(first) && change.Before(first.Add(tested)) {
				near = change.UTC()
			}
			for range rules {
				c, isStart, length := randomRule(r, name, near)
				minutes += compare(t, c, first, isStart, length)
				if t.Failed() {
					t.Fatalf("seed %d, zone %s", seed, name)
				}
			}
		}
	}
	t.Logf("compared %d minutes of %d segments, 0 differences", minutes, segments)
}

// compare compares each minute of a segment with the oracle.
func compare(t *testing.T, c Config, first time.Time, isStart func(time.Time) bool, length time.Duration) int {
	rule, errs := Compile(c)
	if len(errs) > 0 {
		if strings.Contains(errs[0].Detail, "never occurs") {
			return 0
		}
		t.Fatalf("%+v: %v", c, errs)
	}
	const minutes = int((before + tested + after) / time.Minute)
	from := first.Add(-before)
	o := newOracle(from, minutes, rule.zone)
	windows := o.windows(c, isStart, length)
	exact, led := o.mark(windows, 0), o.mark(windows, c.Ramp)
	limit := first.Add(tested)
	next := first
	for i := int(before / time.Minute); i < int((before+tested)/time.Minute); i++ {
		at := from.Add(time.Duration(i) * time.Minute)
		active, raised := rule.covers(at, 0), rule.covers(at, c.Ramp)
		if active != exact[i] || raised != led[i] {
			t.Fatalf("%+v at %s (%s): active %t, raised %t; the oracle: %t, %t", c, at, at.In(rule.zone), active, raised, exact[i], led[i])
		}
		if changed := led[i] != led[i-1] || at.Equal(first); changed {
			if !next.Equal(at) {
				t.Fatalf("%+v: next change at %s; the oracle: %s", c, next, at)
			}
			next = nextChange(&rule, at, limit)
		}
	}
	if !next.IsZero() {
		t.Fatalf("%+v: the change at %s does not exist", c, next)
	}
	return int(tested / time.Minute)
}

// nextChange returns the first start or end of a rule or its ramp after t.
func nextChange(r *Rule, t, limit time.Time) time.Time {
	w, _ := r.window(t, r.Ramp, limit)
	if !w.contains(t) {
		if w.empty() {
			return time.Time{}
		}
		return w.begin
	}
	for w.contains(t) && t.Before(limit) {
		t = w.end
		w, _ = r.window(t, r.Ramp, limit)
	}
	if !t.Before(limit) {
		return time.Time{}
	}
	return t
}

// TestElapsed compares each window around each change of the clock, in all zones from 2010 to 2037,
// with the oracle: its start, and its length in elapsed time. Changes at the same instant between the
// same offsets are tested once.
func TestElapsed(t *testing.T) {
	type change struct {
		at            int64
		before, after int
	}
	tested, lengths := map[change]bool{}, 0
	for _, name := range zones(t) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := time.Date(2010, 1, 1, 0, 0, 0, 0, zone); at.Year() < 2038; {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			if end.After(at) { // see TestLeapYear
				_, before := end.Add(-1).Zone()
				_, after := end.Zone()
				if c := (change{end.Unix(), before, after}); before != after && !tested[c] {
					tested[c] = true
					lengths += compareWindows(t, name, end)
				}
				at = end
			} else {
				at = at.Add(day)
			}
		}
	}
	if len(tested) < 500 || lengths < 100*len(tested) {
		t.Errorf("%d windows around %d changes are too few", lengths, len(tested))
	}
}

// compareWindows compares the windows of several rules around a change of the clock.
func compareWindows(t *testing.T, zone string, change time.Time) (compared int) {
	at := func(field func(hour, minute int) bool) func(time.Time) bool {
		return func(t time.Time) bool { return field(t.Hour(), t.Minute()) }
	}
	from := change.UTC().Truncate(time.Minute).Add(-2 * day)
	o := newOracle(from, 5*1440, change.Location())
	hour, minute := change.Hour(), change.Add(-10*time.Minute).Minute()
	for _, test := range []struct {
		c       Config
		isStart func(time.Time) bool
		length  time.Duration
	}{
		{Config{Cron: "*/10 * * * *", Duration: 5 * time.Minute}, at(func(_, m int) bool { return m%10 == 0 }), 0},
		{Config{Cron: "0 * * * *", Duration: 30 * time.Minute}, at(func(_, m int) bool { return m == 0 }), 0},
		{Config{Cron: "30 */2 * * *", Duration: 45 * time.Minute}, at(func(h, m int) bool { return m == 30 && h%2 == 0 }), 0},
		{Config{Cron: fmt.Sprintf("*/20 %d * * *", hour), Duration: 7 * time.Minute}, at(func(h, m int) bool { return h == hour && m%20 == 0 }), 0},
		{Config{Cron: fmt.Sprintf("%d 0-23 * * *", minute), Duration: 20 * time.Minute}, at(func(_, m int) bool { return m == minute }), 0},
		{Config{Cron: "0,30 0,1,2,3,23 * * *", Duration: 10 * time.Minute}, at(func(h, m int) bool { return m%30 == 0 && (h < 4 || h == 23) }), 0},
		{Config{Cron: "30 1 * * *", Duration: 23 * time.Hour}, at(func(h, m int) bool { return h == 1 && m == 30 }), 0},
		{Config{From: "01:30", To: "03:00"}, at(func(h, m int) bool { return h == 1 && m == 30 }), 90 * time.Minute},
		{Config{From: "22:00", To: "02:30"}, at(func(h, m int) bool { return h == 22 && m == 0 }), 270 * time.Minute},
	} {
		test.c.Name, test.c.Zone, test.c.Mode = "x", zone, "off"
		rule, errs := Compile(test.c)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		var got [][2]int
		begin, limit := from.Add(day), from.Add(4*day)
		for w, ok := rule.nextStart(begin.Add(-1), limit); ok; w, ok = rule.nextStart(w.begin, limit) {
			got = append(got, [2]int{int(w.begin.Sub(from) / time.Minute), int(w.end.Sub(from) / time.Minute)})
			if length := w.end.Sub(w.begin); rule.Cron != "" && length != rule.Duration {
				t.Errorf("%+v: the window at %s has %s", test.c, w.begin.In(rule.zone), length)
			}
		}
		want := slices.DeleteFunc(o.windows(test.c, test.isStart, test.length), func(w [2]int) bool { return w[0] < 1440 || w[0] >= 4*1440 })
		if !slices.Equal(got, want) {
			t.Errorf("%+v around %s: windows %v, want %v", test.c, change, got, want)
		}
		compared += len(want)
	}
	if t.Failed() {
		t.FailNow()
	}
	return compared
}
