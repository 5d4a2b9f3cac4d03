package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// shownBelow maps the first command of an example in docs/cli.md to the script lines that must
// precede it. The other examples need only the scenarios. If loose is set, numbers, paths and names
// may differ from the page.
var shownBelow = map[string]struct {
	before string
	loose  bool
}{
	"hpad check bad.toml": {before: "cp bad.in bad.toml\n"},
	"hpad pause checkout --for 2h --reason \"migration of the database\"": {before: realDaemon, loose: true},
	"hpad scale checkout 8": {before: realDaemon},
	"hpad autoscale local/worker --min 1 --max 3 --memory-percent 50 --config hpad.toml": {before: realDaemon + "exec hpad delete checkout --config hpad.toml\n"},
}

var shownElsewhere = map[string]string{
	"hpad logs worker-0 -n 2":         "TestStop of test/e2e, with other output",
	"hpad get checkout search mailer": "TestGolden, with ages",
	"export HPAD_SERVER=https://vm1:4720 HPAD_CA_FILE=~/hpad-ca.crt HPAD_USERNAME=alice HPAD_PASSWORD_FILE=~/.hpad-password": "TestAccess, over TLS",
}

// realDaemon starts a daemon with an autoscaler.
const realDaemon = `exec sh -c 'sed "s|WORK|$WORK|" hpad.in >hpad.toml; mkdir conf.d; cp checkout.in conf.d/checkout.toml'
exec hpad run --config hpad.toml --log-level error &daemon&
env HPAD_SOCKET=$WORK/s
exec sh -c 'n=0; until hpad get -o wide 2>/dev/null | grep -q "prod/worker.*1 "; do n=$((n+1)); test $n -lt 600 || exit 1; sleep 0.1; done'
`

const shownFiles = `
-- bad.in --
[daemon]
sync_period = 15

[autoscalers.worker]
max_replica = 3
-- hpad.in --
[daemon]
listen      = ""
socket      = "WORK/s"
state_dir   = "WORK/state"
sync_period = "1s"
[fleets.prod]
kind = "process"
[fleets.prod.services.worker]
command  = ["sleep", "1000"]
requests = { cpu = "100m", memory = "10Mi" }
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command  = ["sleep", "1000"]
requests = { cpu = "100m", memory = "10Mi" }
-- checkout.in --
[autoscalers.checkout]
target       = { fleet = "prod", service = "worker" }
max_replicas = 40
`

// TestPage runs the examples of docs/cli.md and compares their output with the page.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	for n, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(readDoc(t, "cli.md"), -1) {
		commands, outputs := sessionOf(block[1])
		if len(commands) == 0 {
			t.Fatalf("an example has no command:\n%s", block[1])
		}
		if shownElsewhere[commands[0]] != "" {
			continue
		}
		world := shownBelow[commands[0]]
		script, files := world.before, shownFiles
		switch {
		case script != "":
		case strings.Contains(outputs[0], "error: reload: "):
			_, message, _ := strings.Cut(outputs[0], "error: reload: ")
			message, _, _ = strings.Cut(message, "\n")
			script = "serve bad '" + message + "'\n"
		default:
			script = "serve\n"
		}
		for i, command := range commands {
			script += fmt.Sprintf("exec sh command%d\nshows out%d want%d %t\n", i, i, i, world.loose)
			files += fmt.Sprintf("-- command%d --\n%s\n", i, "{ "+command+"; } >out"+fmt.Sprint(i)+" 2>&1 || true")
			files += fmt.Sprintf("-- want%d --\n%s", i, outputs[i])
		}
		if strings.Contains(script, "&daemon&") && !strings.Contains(script, "wait daemon") {
			script += "kill -INT daemon\nwait daemon\n"
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.txtar", n)), []byte(script+files), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"serve": serve, "shows": shows},
	})
}

func sessionOf(block string) (commands, outputs []string) {
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands, outputs = append(commands, strings.TrimSuffix(command, "\n")), append(outputs, "")
		} else if len(outputs) > 0 {
			outputs[len(outputs)-1] += line
		}
	}
	return commands, outputs
}

// changing lists the parts of an output that differ between runs.
var changing = []struct{ parts, with string }{
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
	{`\d[\d.]*`, "N"},
	{` by \w+`, " by SOMEBODY"},
}

// shows implements the command "shows GOT WANT LOOSE", which compares a file that a command wrote
// with the output on the page.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	got, want := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	if args[2] == "true" {
		for _, change := range changing {
			parts := regexp.MustCompile(change.parts)
			got, want = parts.ReplaceAllString(got, change.with), parts.ReplaceAllString(want, change.with)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		ts.Fatalf("docs/cli.md shows something else (-page +printed):\n%s", diff)
	}
}
