package exec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
)

// TestOneshotRead checks the readings of programs in mode "oneshot".
func TestOneshotRead(t *testing.T) {
	for script, want := range map[string]string{
		"echo 3": "", "printf ' 3\n\n'": "", `echo '{"count": 3, "version": "a"}'`: "",
		"":                             "invalid output: it must be a count or a JSON object, and begins with \"\"",
		"echo -1":                      `begins with "-1`,
		"echo 3.5":                     `begins with "3.5`,
		"echo three":                   `begins with "three`,
		"echo 99999999999":             `begins with "99999999999`,
		`echo '{"count": "x"}'`:        `field "/count" must not be a JSON string`,
		"echo 'no daemon' >&2; exit 1": "exit status 1: no daemon",
		"echo 3; exit 75":              "temporary failure: exit status 75",
		"sleep 1000":                   "killed: no response within the fleet's timeout of 1s",
		"head -c 100000000 /dev/zero":  "killed: the output has more than 1048576 bytes",
		"echo 'no pool' >&2; exit 66":  "target not found: no pool",
		`echo '{"error": {"code": "not_found", "message": "no such pool"}}'`: "target not found: no such pool",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			config := &Config{Mode: modeOneshot}
			config.Timeout = time.Second
			fleet, _ := build(t, config, `[ "$1 $2" = "read web" ] || exit 99`+"\n"+script)
			readings, err := fleet.Snapshot(t.Context(), []targets.Ref{web})
			got := readings[web]
			switch {
			case err != nil:
				t.Fatal(err)
			case want == "" && (got.Err != nil || got.SpecReplicas != 3):
				t.Errorf("reading = %+v, want 3 replicas", got)
			case want != "" && (got.Err == nil || !strings.Contains(got.Err.Error(), want) || !targets.HasClass(got.Err)):
				t.Errorf("reading = %v, want %q", got.Err, want)
			}
		})
	}
}

// TestOneshotScale checks the arguments and the exit statuses.
func TestOneshotScale(t *testing.T) {
	for script, want := range map[string]struct {
		class   error
		unknown bool
		text    string
	}{
		"exit 0":                        {},
		"echo 'in use' >&2; exit 75":    {targets.ErrTransient, false, "in use"},
		"echo 'deploying' >&2; exit 65": {targets.ErrHeld, false, "AdapterHold: deploying"},
		"echo 'no space' >&2; exit 1":   {targets.ErrTransient, true, "no space"},
		"kill -9 $$":                    {targets.ErrTransient, true, "signal: killed"},
		"sleep 1000":                    {targets.ErrTransient, true, "timeout of 1s"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "arguments")
			config := &Config{Mode: modeOneshot}
			config.Timeout = time.Second
			fleet, _ := build(t, config, `if [ "$1" = read ]; then echo 3; exit; fi; echo "$@" "$HPAD_REASON" > '`+file+"'\n"+script)
			err := fleet.SetReplicas(t.Context(), web, 5, "3/", "high load")
			if !errors.Is(err, want.class) || (err == nil) != (want.class == nil) || errors.Is(err, targets.ErrUnknownOutcome) != want.unknown ||
				err != nil && !strings.Contains(err.Error(), want.text) {
				t.Errorf("SetReplicas() = %v, want %v with %q", err, want.class, want.text)
			}
			text, err := os.ReadFile(file)
			if diff := cmp.Diff("scale web 3 5 high load\n", string(text)); diff != "" || err != nil {
				t.Errorf("arguments = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestOneshotAtOnce checks that at most one process runs, and that the targets after a hang are still read
// if there is time.
func TestOneshotAtOnce(t *testing.T) {
	dir := t.TempDir()
	config := &Config{Mode: modeOneshot}
	config.Timeout = time.Second
	fleet, _ := build(t, config, `mkdir `+dir+`/running || { echo 99; exit; }; [ "$2" = hang ] && { rmdir `+dir+`/running; sleep 1000; }; sleep 0.01; rmdir `+dir+`/running; echo 3`)
	var refs []targets.Ref
	for _, name := range []string{"a", "hang", "web", "z"} {
		refs = append(refs, targets.Ref{Fleet: "f", Name: name})
	}
	results := make(chan map[targets.Ref]targets.Reading, 3)
	for range cap(results) {
		go func() {
			readings, err := fleet.Snapshot(t.Context(), refs)
			if err != nil {
				t.Error(err)
			}
			results <- readings
		}()
	}
	for range cap(results) {
		for ref, reading := range <-results {
			if failed := reading.Err != nil; failed != (ref.Name == "hang") || !failed && reading.SpecReplicas != 3 {
				t.Errorf("reading of %s = %+v", ref, reading)
			}
		}
	}
}
