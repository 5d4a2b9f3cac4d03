package problem

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCause(t *testing.T) {
	if got := Cause(); got != "" {
		t.Errorf("cause without texts = %q, want none", got)
	}
	if got := Cause("", " \n"); got != "" {
		t.Errorf("cause of a blank text = %q, want none", got)
	}
	for _, test := range []struct {
		name string
		a, b string
		same bool
	}{
		{"a port", "read tcp 127.0.0.1:51234->127.0.0.1:9090: connection reset", "read tcp 127.0.0.1:40001->127.0.0.1:9090: connection reset", true},
		{"counts and times", "no instance has a usable sample: 3 unready, 12 without", "no instance has a usable sample: 1 unready, 0 without", true},
		{"an ID", `instance "3f2a9c" states no cpu request`, `instance "77b01e" states no cpu request`, true},
		{"another status", "server returned 400 Bad Request", "server returned 503 Service Unavailable", false},
		{"a permission", "403: ACL token not found", "403: Permission denied", false},
		{"not a number", "connection refused", "value is not a number (NaN)", false},
	} {
		if got := Cause(test.a) == Cause(test.b); got != test.same {
			t.Errorf("%s: same cause = %v, want %v", test.name, got, test.same)
		}
	}
	if Cause("a", "b") == Cause("a b") {
		t.Error("two texts have the same cause as one text")
	}
}

// TestDeduper records one cause per minute. Each letter is a cause, and "-" means no problem. The
// result lists the news with their minutes and the number of preceding unreported changes.
func TestDeduper(t *testing.T) {
	// Four causes per minute, one for each pass with the default period.
	const flaps = "a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-"
	for _, test := range []struct{ name, causes, want string }{
		{"nothing", "----------", ""},
		{"begins and ends", "--aaaa----", "2a 6-"},
		{"follows the cause", "-aabbbcc-", "1a 3b 6c 8-"},
		{"counts alternating causes", flaps + flaps, "0a 1- 40a+38 41-"},
		{"then reports a lasting cause", "a-a-aaaaaaaaaaaaaa", "0a 1- 12a+2"},
		{"then reports the end", "a-a-a-------------", "0a 1- 13-+4"},
		{"two alternating causes", "abababababab" + strings.Repeat("b", 12), "0a 1b 19b+10"},
		{"an early return is not news", "a-----------a", "0a 1- "},
		{"a late return is news", "a" + strings.Repeat("-", 39) + "a", "0a 1- 40a"},
		{"more causes than the limit", "abcdefghij", "0a 1b 2c 3d 4e 5f 6g 7h"},
		{"rests", strings.Repeat("a", 50) + "bbb" + strings.Repeat("-", 50) + "b", "0a 50b 53- 103b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var f, forgetful Deduper
			var got []string
			start := time.Unix(0, 0)
			for i, cause := range strings.Split(test.causes, "") {
				cause, now := strings.Trim(cause, "-"), start.Add(time.Duration(i)*15*time.Second)
				change := f.Update(cause, now, false)
				if again := forgetful.Update(cause, now, false); again != change {
					t.Errorf("change after a rest %d%s = %+v, want %+v", i, cause, again, change)
				}
				if forgetful.IsSettled(now) {
					forgetful = Restored(cause, time.Time{})
				}
				if !change.News {
					continue
				}
				entry := fmt.Sprintf("%d%s", i, cmp.Or(cause, "-"))
				if change.Flapped.Changes > 0 {
					entry += fmt.Sprintf("+%d", change.Flapped.Changes)
				}
				got = append(got, entry)
			}
			if want := strings.TrimSpace(test.want); strings.Join(got, " ") != want {
				t.Errorf("news = %q, want %q", strings.Join(got, " "), want)
			}
		})
	}
}

// TestDeduperForgets checks that a Deduper drops its state some time after a problem has ended.
func TestDeduperForgets(t *testing.T) {
	var f Deduper
	now := time.Unix(0, 0)
	f.Update("a", now, false)
	f.Update("", now.Add(time.Minute), false)
	if f.Update("", now.Add(10*time.Minute), false); !f.HasState() {
		t.Error("the state was dropped while causes were known")
	}
	if f.Update("", now.Add(12*time.Minute), false); f.HasState() {
		t.Error("state remains without a problem")
	}
}
