package packages

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPolkit checks the rule for systemd fleets with a real polkit. Only hpad's user may start,
// stop and reset instances, and only instances of the templates in the rule.
func TestPolkit(t *testing.T) {
	t.Parallel()
	rule, err := os.ReadFile("../../systemd/polkit/49-hpad-systemd.rules")
	if err != nil {
		t.Fatal(err)
	}
	m := boot(t, t.TempDir())
	m.run("mkdir -p /etc/sysusers.d; echo u hpad - >/etc/sysusers.d/hpad.conf; systemd-sysusers")
	for _, template := range []string{"worker", "api", "my-worker"} {
		m.write("/etc/systemd/system/"+template+"@.service", "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target")
	}
	m.run("systemctl daemon-reload; systemctl start worker@7 api@7")
	may := func(want bool, user, call string) {
		t.Helper()
		said, err := m.try(fmt.Sprintf("setpriv --reuid %[1]s --regid $(id -g %[1]s) --init-groups busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager %[2]s", user, call))
		denied := err != nil && (strings.Contains(said, "Interactive authentication required") || strings.Contains(said, "Access denied"))
		if want && err != nil || !want && !denied {
			t.Errorf("%s by %s: %v %s; want it allowed: %v", call, user, err, said, want)
		}
	}
	may(false, "hpad", "StartUnit ss worker@1.service replace")
	m.write("/etc/polkit-1/rules.d/49-hpad-systemd.rules", string(rule))
	m.run("systemctl restart polkit")
	may(true, "hpad", "StartUnit ss worker@1.service replace")
	may(true, "hpad", "StopUnit ss worker@7.service replace")
	m.wantOutput("worker@1.service", "systemctl list-units --plain --no-legend --no-pager --state active 'worker@*' | cut -d ' ' -f 1")
	for _, call := range []string{
		"StartUnit ss api@1.service replace",
		"StopUnit ss api@7.service replace",
		"StartUnit ss my-worker@1.service replace",
		"StartUnit ss worker@x.service replace",
		"StopUnit ss dbus.service replace",
		"RestartUnit ss worker@1.service replace",
		"KillUnit ssi worker@1.service all 9",
		"EnableUnitFiles asbb 1 worker@1.service false false",
		"Reload",
	} {
		may(false, "hpad", call)
	}
	may(false, "nobody", "StopUnit ss worker@1.service replace")

	// "hpad check --live" sends invalid job modes: polkit checks the unit and the verb before
	// systemd rejects the mode.
	asks := func(want bool, call, refusal string) {
		t.Helper()
		said, err := m.try("setpriv --reuid hpad --regid $(id -g hpad) --init-groups busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager " + call)
		denied := strings.Contains(said, "Interactive authentication required") || strings.Contains(said, "Access denied")
		if err == nil || denied == want || want && !strings.Contains(said, refusal) {
			t.Errorf("%s: %v %s; want it allowed: %v", call, err, said, want)
		}
	}
	for unit, want := range map[string]bool{"worker@1.service": true, "worker@99.service": true, "api@7.service": false, "api@99.service": false} {
		asks(want, "StopUnit ss "+unit+" isolate", "Isolate is only valid for start")
		asks(want, "StartUnit ss "+unit+" triggering", "only valid for stop")
	}
	may(false, "hpad", "DisableUnitFiles asb 0 false")
	m.wantOutput("api@7.service\nworker@1.service", "systemctl list-units --plain --no-legend --no-pager --state active 'worker@*' 'api@*' | cut -d ' ' -f 1 | sort")
	m.wantOutput("", "journalctl --no-pager --unit polkit --output cat | grep -i -e error -e exception || true")
}
