package schedule

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

func rulesOf(t *testing.T, configs ...Config) (rules Rules) {
	t.Helper()
	for _, c := range configs {
		rule, errs := Compile(c)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		rules = append(rules, rule)
	}
	return rules
}

// TestAt tests the combined bounds at instants in UTC.
func TestAt(t *testing.T) {
	office := Config{
		Name: "office", Zone: "Europe/Berlin", Days: []string{"mon-fri"}, From: "08:00", To: "18:00", MinReplicas: new(int32(5)),
		MaxReplicas: new(int32(20)), Ramp: 10 * time.Minute, Except: []string{"2026-12-25"},
	}
	night := Config{Name: "night", Zone: "Europe/Berlin", Cron: "30 2 * * *", Duration: time.Hour, MinReplicas: new(int32(3))}
	sale := Config{Name: "sale", Zone: "Europe/Berlin", Start: "2026-11-27", End: "2026-11-27", MinReplicas: new(int32(30)), MaxReplicas: new(int32(40))}
	works := Config{Name: "works", Zone: "Europe/Berlin", Days: []string{"fri"}, From: "22:00", To: "02:00", Mode: "off"}
	low := Config{Name: "low", Zone: "UTC", Start: "2026-12-09", End: "2026-12-09 01:00", MinReplicas: new(int32(2)), MaxReplicas: new(int32(4)), Ramp: time.Minute}
	rules := rulesOf(t, office, night, sale, works, low)
	for _, test := range []struct {
		at, active string
		low, high  int32
		mode       policy.Mode
	}{
		{"2026-11-23 06:49", "", 1, 10, ""},
		{"2026-11-23 06:50", "office", 5, 20, ""}, // the ramp
		{"2026-11-23 07:00", "office", 5, 20, ""},
		{"2026-11-23 16:59", "office", 5, 20, ""},
		{"2026-11-23 17:00", "", 1, 10, ""},
		{"2026-11-21 10:00", "", 1, 10, ""}, // a Saturday
		{"2026-11-27 07:00", "office sale", 30, 30, ""},
		{"2026-12-08 23:59", "low", 2, 10, ""}, // a ramp does not lower the maximum
		{"2026-12-09 00:00", "low", 2, 4, ""},
		{"2026-11-27 22:59", "sale works", 30, 40, "off"},
		{"2026-11-27 23:00", "works", 1, 10, "off"},
		{"2026-11-28 01:00", "", 1, 10, ""},
		{"2026-12-25 10:00", "", 1, 10, ""},      // except
		{"2026-03-29 00:59", "", 1, 10, ""},      // 02:30 is in a gap
		{"2026-03-29 01:00", "night", 3, 10, ""}, // so the window begins at 03:00
		{"2026-03-29 02:00", "", 1, 10, ""},
		{"2026-10-25 00:30", "night", 3, 10, ""}, // 02:30 occurs twice
		{"2026-10-25 01:29", "night", 3, 10, ""}, // only the first one counts
		{"2026-10-25 01:30", "", 1, 10, ""},
	} {
		at, err := time.Parse(minuteFormat, test.at)
		if err != nil {
			t.Fatal(err)
		}
		got := rules.At(at, State{Min: 1, Max: 10})
		if strings.Join(got.Active, " ") != test.active || got.Min != test.low || got.Max != test.high || got.Mode != test.mode {
			t.Errorf("%s: %+v, want %+v", test.at, got, test)
		}
		if got.Contradiction != slices.Contains([]string{"2026-11-27 07:00"}, test.at) {
			t.Errorf("%s: contradiction %t", test.at, got.Contradiction)
		}
	}
}

// TestModeOn checks that a schedule with mode "on" overrides the configured mode, and takes
// precedence over a later schedule with another mode.
func TestModeOn(t *testing.T) {
	rules := rulesOf(t, Config{Name: "a", Zone: "UTC", From: "00:00", Mode: "on"}, Config{Name: "b", Zone: "UTC", From: "00:00", Mode: "off"})
	if got := rules.At(time.Now(), State{Mode: policy.ModeRecommend}); got.Mode != policy.ModeOn || got.ModeSchedule != "a" {
		t.Errorf("%+v, want mode on of schedule a", got)
	}
}

// TestLeapYear tests a day on which time.ZoneBounds returns an end in the past.
func TestLeapYear(t *testing.T) {
	at := time.Date(2040, 12, 31, 12, 0, 0, 0, time.UTC)
	rules := rulesOf(t, Config{Name: "x", Zone: "America/Chicago", From: "08:00", To: "18:00", Mode: "off"})
	if next := nextChange(&rules[0], at, at.Add(Horizon)); !next.Equal(at.Add(2 * time.Hour)) {
		t.Errorf("next change at %s", next)
	}
}

func TestContradictions(t *testing.T) {
	low := Config{Name: "low", Zone: "UTC", From: "00:00", MaxReplicas: new(int32(2))}
	high := Config{Name: "high", Zone: "UTC", From: "00:00", MinReplicas: new(int32(3))}
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	want := []string{"low and high: 2026-11-28 09:00 to 2026-11-30 09:00 UTC"} // the contradiction never ends
	if got, _, _ := rulesOf(t, low, high).Contradictions(t.Context(), at, at.Add(2*day), 1000); !slices.Equal(got, want) {
		t.Errorf("contradictions %q, want %q", got, want)
	}
}

func TestCompileErrors(t *testing.T) {
	valid := Config{Name: "x", Zone: "UTC", From: "08:00", MinReplicas: new(int32(1))}
	for field, change := range map[string]func(*Config){
		"name":            func(c *Config) { c.Name = "" },
		"zone":            func(c *Config) { c.Zone = "Europe/Berlim" },
		"":                func(c *Config) { c.Cron, c.Duration = "* * * * *", time.Hour },
		"from":            func(c *Config) { c.From = "8 am" },
		"days[0]":         func(c *Config) { c.Days = []string{"monday"} },
		"end":             func(c *Config) { c.From, c.Start, c.End = "", "2026-11-27", "2026-11-26" },
		"end (missing)":   func(c *Config) { c.From, c.Start = "", "2026-11-27" },
		"start (missing)": func(c *Config) { c.From, c.End = "", "2026-11-27" },
		"cron (missing)":  func(c *Config) { c.From, c.Duration = "", time.Hour },
		"start": func(c *Config) {
			c.From, c.Zone, c.Start, c.End = "", "Europe/Berlin", "2027-03-28 02:00", "2027-03-28 03:00" // a gap
		},
		"cron":         func(c *Config) { c.From, c.Cron, c.Duration = "", "0 0 30 2 *", time.Hour },
		"duration":     func(c *Config) { c.From, c.Cron = "", "0 0 30 1 *" },
		"min_replicas": func(c *Config) { c.MinReplicas, c.Mode, c.Ramp = nil, "off", time.Minute },
		"except[0]":    func(c *Config) { c.Except = []string{"tomorrow"} },
		"except":       func(c *Config) { c.Except = slices.Repeat([]string{"2026-12-24"}, maxExcept+1) },
	} {
		c := valid
		change(&c)
		if _, errs := Compile(c); len(errs) != 1 || errs[0].Field != strings.TrimSuffix(field, " (missing)") {
			t.Errorf("%s: %v", field, errs)
		}
	}
}

// TestAlwaysActive checks that a schedule whose windows adjoin counts as one window, so that the
// search for contradictions does not visit each of its starts.
func TestAlwaysActive(t *testing.T) {
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	for _, c := range []Config{
		{Cron: "* * * * *", Duration: time.Minute},
		{Cron: "*/2 * * * *", Duration: 2 * time.Minute},
		{Cron: "*/30 * * * *", Duration: 168 * time.Hour},
		{Cron: "0 */6 * * *", Duration: 7 * time.Hour},
		{Days: []string{"mon-sun"}},
	} {
		c.Name, c.Zone, c.MinReplicas = "high", "Europe/Berlin", new(int32(3))
		low := Config{Name: "low", Zone: "UTC", From: "06:00", MaxReplicas: new(int32(2))}
		periods, until, left := rulesOf(t, c, low).Contradictions(t.Context(), at, at.Add(Horizon), 10_000)
		if spent := 10_000 - left; len(periods) != 401 || !until.Equal(at.Add(Horizon)) || spent > 3300 {
			t.Errorf("%+v: %d periods until %s in %d steps", c, len(periods), until, spent)
		}
	}
}

// TestBudget checks that the search for contradictions ends with its budget and with its context.
func TestBudget(t *testing.T) {
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	rules := rulesOf(t, Config{Name: "high", Zone: "UTC", Cron: "* * * * *", Duration: time.Minute, MinReplicas: new(int32(3))},
		Config{Name: "low", Zone: "UTC", Cron: "*/2 * * * *", Duration: time.Minute, MaxReplicas: new(int32(2))})
	periods, until, left := rules.Contradictions(t.Context(), at, at.Add(Horizon), 2000)
	if len(periods) != 400 || !until.Equal(at.Add(799*time.Minute)) || left != 0 {
		t.Errorf("%d periods until %s, and %d steps left", len(periods), until, left)
	}
	always := rulesOf(t, Config{Name: "high", Zone: "UTC", Cron: "* * * * *", Duration: time.Minute, MinReplicas: new(int32(3))},
		Config{Name: "low", Zone: "UTC", MaxReplicas: new(int32(2)), Days: []string{"mon-sun"}})
	periods, until, left = always.Contradictions(t.Context(), at, at.Add(Horizon), 100)
	if len(periods) > 1 || until.Before(at.Add(10*day)) || until.After(at.Add(30*day)) || left != 0 {
		t.Errorf("schedules that are always active: %q until %s, and %d steps left", periods, until, left)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if periods, until, _ := rules.Contradictions(ended, at, at.Add(Horizon), 2000); len(periods) != 0 || !until.Equal(at) {
		t.Errorf("%d periods until %s after the end of the context", len(periods), until)
	}
}

// TestDialects checks that the error of a cron expression of another dialect contains the remedy.
func TestDialects(t *testing.T) {
	for text, want := range map[string]string{
		"0 30 2 * * *":                    "not 6: remove the seconds",
		"0 0 8 ? * MON-FRI *":             "not 7: remove the seconds",
		"30 2 * * * root /usr/bin/backup": "a user or a command",
		"30 2":                            `not 2: add "*"`,
		"0 8 ? * *":                       `use "*" instead of "?"`,
		"0 8 L * *":                       "the last day of a month is not supported",
		"0 8 L-3 * *":                     "the last day of a month is not supported",
		"0 8 * * 5L":                      "the last day of a month is not supported",
		"0 8 15W * *":                     "the nearest weekday is not supported",
		"0 8 * * 1#2":                     "the nth weekday of a month is not supported",
		"0 8 * * mon#1":                   "the nth weekday of a month is not supported",
		"0 8 * * Monday":                  `use "mon"`,
		"0 8 * * monday-Friday":           `use "mon-fri"`,
		"0 8 1 january *":                 `use "jan"`,
		"@daily":                          `use "0 0 * * *"`,
		"@Hourly":                         `use "0 * * * *"`,
		"@every 5m":                       `use "*/5 * * * *"`,
		"@every 2h":                       `use "0 */2 * * *"`,
		"@every 1h30m":                    "use 5 fields",
		"@reboot":                         "use 5 fields",
		"TZ=Europe/Berlin 0 8 * * *":      `set zone = "Europe/Berlin" and cron = "0 8 * * *"`,
		"CRON_TZ=Asia/Tokyo @daily":       `set zone = "Asia/Tokyo" and cron = "0 0 * * *"`,
		"0 22-6 * * *":                    `use "22-23,0-6"`,
		"0 8 * * fri-mon":                 `use "fri-sat,sun-mon"`,
		"0 8 * * 5-1":                     `use "5-6,0-1"`,
		"0 8 * * sat-sun":                 `use "sat,sun"`,
		"0 8 * nov-feb *":                 `use "nov-dec,jan-feb"`,
		"50-10 8 * * *":                   `use "50-59,0-10"`,
		"0 8 * * 7-1":                     `use "0-1"`,
		"0 22-6/2 * * *":                  `use "22,0,2,4,6"`,
		"0 23-6/2 * * *":                  `use "23,1,3,5"`,
		"0 8 28-5/3 * *":                  `use "28,31,3"`,
		"0 8 * * 7-3/2":                   `use "0,2"`,
		"0 8 * oct-mar/2 *":               `use "10,12,2"`,
		"+5 8 * * *":                      "a value from 0 to 59",
		"*/+5 8 * * *":                    "a value from 0 to 59",
		"H 8 * * *":                       "choose a value",
		"0~30 8 * * *":                    "choose a value",
		"0 8 * * 1, 2":                    "a space after a comma",
		"cron(0 8 ? * MON-FRI *)":         `use "0 8 * * MON-FRI"`,
		"cron(0 8 * * ? *)":               `use "0 8 * * *"`,
		"cron(0 8 * * *)":                 `use "0 8 * * *"`,
		"Mon..Fri 08:00":                  "systemd",
		"Mon *-*-* 08:00:00":              "systemd",
		"*-*-* 00/2:00":                   "systemd",
		"*:0/15":                          "systemd",
		"2027-01-01":                      "systemd",
		"daily":                           "systemd",
		"0 8 * * SAT-SUN":                 `use "SAT,sun"`,
		"0 8 * * MON-SUN":                 `use "MON-sat,sun"`,
		"   ":                             "is required with duration",
		"rate(5 minutes)":                 "use a step",
		"60 8 * * *":                      "a value from 0 to 59",
		"*/0 8 * * *":                     "a step must be from 1 to 59",
	} {
		_, errs := Compile(Config{Name: "x", Zone: "UTC", Cron: text, Duration: time.Hour, Mode: "off"})
		if len(errs) != 1 || !strings.Contains(errs[0].Detail, want) {
			t.Errorf("%s: %v, want %s", text, errs, want)
			continue
		}
		// A remedy for a part of a field must be valid.
		if remedy := regexp.MustCompile(`^"(.+)" is not valid as .*: use "([^"]+)"$`).FindStringSubmatch(errs[0].Detail); remedy != nil {
			config := Config{Name: "x", Zone: "UTC", Cron: strings.Replace(text, remedy[1], remedy[2], 1), Duration: time.Hour, Mode: "off"}
			if _, errs := Compile(config); len(errs) > 0 && !strings.Contains(errs[0].Detail, "wrap around") { // monday-sunday needs two steps
				t.Errorf("%s: the remedy %s is not valid: %v", text, config.Cron, errs)
			}
		}
	}
}

func TestNoBudget(t *testing.T) {
	from := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for budget, ctx := range map[int]context.Context{0: t.Context(), 1000: canceled} {
		unusable := Rules{{}} // its evaluation panics, because it has no zone
		if periods, until, left := unusable.Contradictions(ctx, from, from.Add(Horizon), budget); len(periods) > 0 || !until.Equal(from) || left != 0 {
			t.Errorf("budget %d: %v until %v, left %d", budget, periods, until, left)
		}
	}
}
