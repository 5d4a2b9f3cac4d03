package packages

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

const patience = 90 * time.Second

// administrator installs and uses the packages. It checks that the stabilization window of one
// autoscaler survives every step.
type administrator struct {
	*machine
	// held is the recommendation that prevents a scale-down, and leaves is the time when it leaves
	// the window. Both must survive restarts.
	held   policy.Recommendation
	leaves time.Time
	// scaled is the time of the last scaling.
	scaled time.Time
}

// TestMachine installs, configures, reloads, kills, upgrades, removes and purges hpad on a machine
// with systemd.
func TestMachine(t *testing.T) {
	t.Parallel()
	a := &administrator{machine: boot(t, share(t,
		filepath.Join(all.in(t), deb(oldVersion, runtime.GOARCH)),
		filepath.Join(newer.in(t), deb(newVersion, runtime.GOARCH))))}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"install", a.install},
		{"sandbox", a.sandbox},
		{"socket", a.socket},
		{"credentials", a.credentials},
		{"drop-ins", a.dropIns},
		{"scale", a.scale},
		{"logs", a.logs},
		{"reload", a.reload},
		{"kill", a.kill},
		{"hang", a.hang},
		{"upgrade", a.upgrade},
		{"rejected upgrade", a.upgradeRejected},
		{"remove", a.remove},
		{"install again", a.installAgain},
		{"purge", a.purge},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			of := a.t
			defer func() { a.t = of }()
			a.t = t
			step.do()
		}) {
			break // later steps depend on this step
		}
	}
}

// install checks that the service runs after the installation.
func (a *administrator) install() {
	a.run("dpkg --install /mnt/0.deb")
	a.wantOutput("active\nenabled", "systemctl is-active hpad; systemctl is-enabled hpad")
	a.awaitStatus("0 autoscalers, 0 failing")
	a.wantOutput("healthy", "hpad health")
	a.wantOutput("hpad "+oldVersion, "hpad version | cut -d ' ' -f 1,2")
	for path, want := range map[string]string{
		"/var/lib/hpad":          "hpad:hpad 700",
		"/var/cache/hpad":        "hpad:hpad 755",
		"/var/lib/hpad/state.db": "hpad:hpad 600",
		"/run/hpad":              "hpad:hpad 750",
		"/run/hpad/hpad.sock":    "hpad:hpad 660",
		"/etc/hpad":              "root:root 755",
		"/etc/hpad/conf.d":       "root:root 755",
		"/etc/hpad/hpad.toml":    "root:root 644",
		"/usr/bin/hpad":          "root:root 755",
	} {
		a.wantOutput(want, "stat --format '%U:%G %a' "+path)
	}
	a.wantOutput("hpad:/var/lib/hpad:/usr/sbin/nologin", "getent passwd hpad | cut -d : -f 1,6,7")
	a.wantOutput("", "dpkg --verify hpad")
}

// awaitStatus waits for a status line of the service.
func (a *administrator) awaitStatus(want string) {
	a.t.Helper()
	a.await(patience, `Status: "`+want+`"`, `systemctl status --no-pager hpad | sed -n 's/^ *\(Status: \)/\1/p'`)
}

// sandbox checks the privileges of hpad's process.
func (a *administrator) sandbox() {
	a.wantOutput("hpad", "ps --no-headers --format user --pid $(systemctl show --property MainPID --value hpad)")
	a.wantOutput("CapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2",
		"tr '\\t' ' ' </proc/$(systemctl show --property MainPID --value hpad)/status | grep -E '^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):'")
	wantSecure(a.t, a.run("systemd-analyze security --no-pager hpad.service"))
	a.wantOutput("", "systemd-analyze verify --man=no hpad.service 2>&1 | grep hpad || true")
	a.wantOutput("", "journalctl --no-pager --unit hpad --priority warning --output cat | grep -v '^-- ' || true")
}

// socket checks that only members of the group may use the socket.
func (a *administrator) socket() {
	if said, err := a.try("setpriv --reuid 65534 --regid 65534 --clear-groups hpad get"); err == nil || !strings.Contains(said, "permission denied") {
		a.t.Errorf("got %q, %v outside of the group, want permission denied", said, err)
	}
	a.wantOutput("No autoscalers are configured.", "setpriv --reuid 65534 --regid 65534 --groups $(getent group hpad | cut -d : -f 3) hpad get")
	a.wantOutput("The configuration was reloaded.\nThere are no changes.", "setpriv --reuid 65534 --regid 65534 --groups $(getent group hpad | cut -d : -f 3) hpad reload")
}

// examples is the directory of the example drop-ins.
const examples = "/usr/share/doc/hpad/examples/systemd"

// credentials checks that systemd passes two credentials to hpad, although hpad's user cannot read
// their sources: one that the unit lists, even if the unit's other credentials do not exist, and
// one that the drop-in adds.
func (a *administrator) credentials() {
	a.run("install -D -m 0644 " + examples + "/credentials.conf /etc/systemd/system/hpad.service.d/credentials.conf")
	a.run("install -d -m 0700 /etc/credstore; systemctl daemon-reload")
	for _, name := range []string{"nomad-token", "webhook-token"} {
		a.run("echo secret of " + name + " >/etc/credstore/hpad." + name + "; chmod 0600 /etc/credstore/hpad." + name)
		if said, err := a.try("setpriv --reuid hpad --regid hpad --init-groups cat /etc/credstore/hpad." + name); err == nil {
			a.t.Errorf("hpad's user can read %q, want permission denied", said)
		}
	}
	a.run("systemctl restart hpad")
	a.wantOutput("active", "systemctl is-active hpad")
	for _, name := range []string{"nomad-token", "webhook-token"} {
		a.wantOutput("secret of "+name, "nsenter --target $(systemctl show --property MainPID --value hpad) --mount setpriv --reuid hpad --regid hpad --init-groups cat /run/credentials/hpad.service/"+name)
	}
}

// processes is the configuration of a fleet of processes inside hpad's sandbox.
const processes = `
[fleets.local]
kind = "process"
[fleets.local.services.sleeper]
command = ["sleep", "infinity"]

[autoscalers.sleeper]
target       = { fleet = "local", service = "sleeper" }
min_replicas = 2
max_replicas = 3
sync_period  = "1s"
[[autoscalers.sleeper.metrics]]
type          = "Resource"
resource      = "cpu"
average_value = "1"
`

// dropIns checks the drop-ins for processes and for low ports, that the processes outlive hpad, and
// that they end when their fleet was removed.
func (a *administrator) dropIns() {
	const sleepers = "pgrep --count --exact --uid hpad sleep || true"
	a.run("cd " + examples + "; cp process.conf low-port.conf /etc/systemd/system/hpad.service.d/")
	a.run("sed -i 's/127.0.0.1:4720/127.0.0.1:80/' /etc/hpad/hpad.toml; systemctl daemon-reload")
	a.write("/etc/hpad/conf.d/local.toml", processes)
	a.run("systemctl restart hpad")
	a.await(patience, "2", sleepers)
	a.wantOutput("1", "grep --count ' 0100007F:0050 00000000:0000 0A ' /proc/net/tcp")
	wantSecure(a.t, a.run("systemd-analyze security --no-pager hpad.service"))
	before, pid := a.run("pgrep --exact --uid hpad sleep"), a.pid()
	a.run("kill -KILL " + pid)
	a.awaitRestart(pid)
	a.await(patience, "2", sleepers)
	a.wantOutput(strings.TrimSpace(before), "pgrep --exact --uid hpad sleep")
	a.run("cd /etc/systemd/system/hpad.service.d; rm process.conf low-port.conf /etc/hpad/conf.d/local.toml")
	a.run("sed -i 's/127.0.0.1:80\"/127.0.0.1:4720\"/' /etc/hpad/hpad.toml; systemctl daemon-reload; systemctl restart hpad")
	a.await(patience, "0", sleepers)
	a.wantOutput("", "dpkg --verify hpad")
}

// workers is the unit template that hpad scales.
const workers = `
[Service]
ExecStart=/bin/sh -c 'echo start; echo pid $$$$; exec sleep infinity'
Restart=always
`

// load is the exporter's unit.
const load = `
[Service]
ExecStart=/mnt/load /run/load-value
`

const autoscaler = `
[fleets.vm]
kind = "systemd"
[fleets.vm.templates."worker@.service"]
replicas = 1

[sources.own]
kind = "embedded"
[[sources.own.scrape]]
job       = "load"
addresses = ["127.0.0.1:9999"]
interval  = "1s"

[autoscalers.worker]
target       = { fleet = "vm", template = "worker@.service" }
min_replicas = 1
max_replicas = 20
sync_period  = "1s"
[[autoscalers.worker.metrics]]
type          = "External"
name          = "load"
source        = "own"
query         = "load"
average_value = "10"
[autoscalers.worker.behavior.scale_down]
stabilization_window = "20m"
`

const autoscalerFile = "/etc/hpad/conf.d/worker.toml"

// scale checks that hpad scales up, and that the window then prevents a scale-down.
func (a *administrator) scale() {
	a.write("/etc/systemd/system/worker@.service", workers)
	a.write("/etc/systemd/system/load.service", load)
	a.run("install -D -m 0644 " + examples + "/systemd-units.conf /etc/systemd/system/hpad.service.d/systemd-units.conf")
	a.run("install -D -m 0644 " + examples + "/49-hpad-systemd.rules /etc/polkit-1/rules.d/49-hpad-systemd.rules")
	a.run("sed -i '/^# .Service/,$ s/^# //' /etc/systemd/system/hpad.service.d/systemd-units.conf")
	a.run("echo 5 >/run/load-value; systemctl daemon-reload; systemctl start load")
	a.write(autoscalerFile, autoscaler)
	a.run("hpad check; systemctl restart hpad")
	a.awaitStatus("1 autoscaler, 0 failing")
	a.awaitUnits(1)
	a.run("echo 48 >/run/load-value")
	a.awaitUnits(5)
	a.run("echo 27 >/run/load-value")
	// The recommendation that prevents the scale-down must not change in later steps.
	a.held, a.leaves, a.scaled = a.window()
	a.awaitUnits(5)
}

// logs checks the output of a unit from the journal, before and after its last start.
func (a *administrator) logs() {
	const pid = "systemctl show --property MainPID --value worker@5"
	earlier := a.run(pid)
	a.await(patience, "pid "+earlier, "hpad logs worker worker@5 --tail 1")
	a.run("systemctl restart worker@5")
	a.await(patience, "start\npid "+a.run(pid), "hpad logs worker worker@5 --tail 2")
	a.await(patience, "start\npid "+earlier, "hpad logs worker worker@5 --tail 2 --previous")
	a.awaitUnits(5)
}

// awaitUnits waits until the first count units are active.
func (a *administrator) awaitUnits(count int) {
	a.t.Helper()
	var want []string
	for i := range count {
		want = append(want, "worker@"+string(rune('1'+i))+".service")
	}
	a.await(patience, strings.Join(want, "\n"),
		"systemctl list-units --plain --no-legend --no-pager --state active 'worker@*' | cut -d ' ' -f 1 | sort")
}

// window waits until an earlier recommendation prevents a scale-down. It returns the
// recommendation, the time when it leaves the window, and the time of the last scaling.
func (a *administrator) window() (policy.Recommendation, time.Time, time.Time) {
	a.t.Helper()
	var view api.Autoscaler
	a.await(patience, "ScaleDownStabilized true", `hpad get worker -o json >/tmp/view
grep -q '"binding"' /tmp/view && binding=true
echo "$(sed -n 's/.*"reason": "\(ScaleDownStabilized\)".*/\1/p' /tmp/view | tail -n 1) ${binding:-false}"`)
	if err := json.Unmarshal([]byte(a.run("cat /tmp/view")), &view); err != nil {
		a.t.Fatal(err)
	}
	if view.Decision == nil || view.Decision.Stabilization == nil || view.Decision.Stabilization.Binding == nil {
		a.t.Fatalf("no recommendation holds the count: %+v", view.Decision)
	}
	stabilization := view.Decision.Stabilization
	return *stabilization.Binding, stabilization.BindingLeaves, view.Status.LastScaleTime
}

// wantStateKept checks that the window, the time of the last scaling and the units are unchanged.
func (a *administrator) wantStateKept() {
	a.t.Helper()
	held, leaves, scaled := a.window()
	if held != a.held || !leaves.Equal(a.leaves) || !scaled.Equal(a.scaled) {
		a.t.Errorf("got recommendation %+v until %s and last change %s; want %+v until %s and %s",
			held, leaves, scaled, a.held, a.leaves, a.scaled)
	}
	a.awaitUnits(5)
}

// reload checks that a valid configuration is applied and an invalid one is rejected.
func (a *administrator) reload() {
	pid := a.pid()
	a.run("sed -i 's/max_replicas = 20/max_replicas = 10/' " + autoscalerFile + "; systemctl reload hpad")
	a.wantOutput("10", "hpad get --output json worker | sed -n 's/.*\"max_replicas\": \\([0-9]*\\).*/\\1/p' | head -n 1")
	a.run("sed -i 's/max_replicas = 10/max_replicas = 0/' " + autoscalerFile)
	if said, err := a.try("systemctl reload hpad"); err == nil {
		a.t.Errorf("the reload of an invalid configuration succeeded: %s", said)
	}
	if said := a.run("journalctl --no-pager --unit hpad --output cat"); !strings.Contains(said, autoscalerFile+":16: autoscalers.worker.max_replicas = 0") {
		a.t.Errorf("the journal lacks the error:\n%s", said)
	}
	a.wantOutput("10", "hpad get --output json worker | sed -n 's/.*\"max_replicas\": \\([0-9]*\\).*/\\1/p' | head -n 1")
	a.wantOutput("active", "systemctl is-active hpad")
	a.run("sed -i 's/max_replicas = 0/max_replicas = 20/' " + autoscalerFile + "; systemctl reload hpad")
	if now := a.pid(); now != pid {
		a.t.Errorf("got process %s after the reloads, want %s", now, pid)
	}
	a.wantStateKept()
}

// pid returns the ID of the main process.
func (a *administrator) pid() string {
	a.t.Helper()
	return a.run("systemctl show --property MainPID --value hpad")
}

// awaitRestart waits until the main process has a process ID other than pid.
func (a *administrator) awaitRestart(pid string) {
	a.t.Helper()
	a.await(patience, "active true", `now=$(systemctl show --property MainPID --value hpad)
echo "$(systemctl is-active hpad) $([ "$now" != 0 ] && [ "$now" != `+pid+` ] && echo true)"`)
}

// kill checks that systemd restarts hpad after it has been killed.
func (a *administrator) kill() {
	pid := a.pid()
	a.run("kill -KILL " + pid)
	a.awaitRestart(pid)
	a.wantStateKept()
}

// hang checks that systemd restarts hpad when it stops sending watchdog messages.
func (a *administrator) hang() {
	pid := a.pid()
	a.run("kill -STOP " + pid)
	a.awaitRestart(pid)
	said := a.run("journalctl --no-pager --unit hpad --output cat")
	for _, want := range []string{"Watchdog timeout", "SIGABRT: abort", "goroutine "} {
		if !strings.Contains(said, want) {
			a.t.Errorf("the journal lacks %q:\n%s", want, said)
		}
	}
	a.wantStateKept()
}

// upgrade checks that the newer version runs with the same configuration and state.
func (a *administrator) upgrade() {
	a.run("echo '# of this machine' >>/etc/hpad/hpad.toml")
	sum := a.run("sha256sum /etc/hpad/hpad.toml " + autoscalerFile)
	pid := a.pid()
	a.run("dpkg --install /mnt/1.deb")
	a.awaitRestart(pid)
	a.wantOutput("/usr/bin/hpad", "readlink /proc/$(systemctl show --property MainPID --value hpad)/exe")
	a.wantOutput("hpad "+newVersion, "hpad version | cut -d ' ' -f 1,2")
	a.wantOutput(sum, "sha256sum /etc/hpad/hpad.toml "+autoscalerFile)
	a.awaitStatus("1 autoscaler, 0 failing")
	a.wantStateKept()
}

// upgradeRejected checks that the old process continues to run if the configuration is invalid.
func (a *administrator) upgradeRejected() {
	pid := a.pid()
	a.run("sed -i 's/max_replicas = 20/max_replicas = 0/' " + autoscalerFile)
	said := a.run("dpkg --install /mnt/1.deb")
	for _, want := range []string{"autoscalers.worker.max_replicas = 0", "the old version continues to run"} {
		if !strings.Contains(said, want) {
			a.t.Errorf("the output of the upgrade does not contain %q:\n%s", want, said)
		}
	}
	a.wantOutput("active "+pid, "echo $(systemctl is-active hpad) $(systemctl show --property MainPID --value hpad)")
	a.run("sed -i 's/max_replicas = 0/max_replicas = 20/' " + autoscalerFile)
	a.run("dpkg --install /mnt/1.deb")
	a.awaitRestart(pid)
	a.wantStateKept()
}

// remove checks that the configuration, the state and the units remain after the package has been
// removed.
func (a *administrator) remove() {
	a.run("dpkg --remove hpad")
	a.wantOutput("inactive", "systemctl is-active hpad || true")
	a.wantOutput("", "pgrep -x hpad || true")
	a.wantOutput("", "ls -d /usr/bin/hpad /usr/lib/systemd/system/hpad.service /run/hpad 2>/dev/null || true")
	a.run("test -s /var/lib/hpad/state.db; test -s /etc/hpad/hpad.toml; test -s " + autoscalerFile)
	a.awaitUnits(5)
}

// installAgain checks that hpad continues after it has been removed and installed again. It then
// sets the stabilization window to 0, so that hpad scales down.
func (a *administrator) installAgain() {
	a.run("dpkg --install /mnt/1.deb")
	a.wantOutput("active\nenabled", "systemctl is-active hpad; systemctl is-enabled hpad")
	a.wantStateKept()
	a.run("sed -i 's/stabilization_window = \"20m\"/stabilization_window = \"0s\"/' " + autoscalerFile + "; systemctl reload hpad")
	a.awaitUnits(3)
}

// purge checks that no files remain after the package has been purged.
func (a *administrator) purge() {
	a.run("dpkg --purge hpad")
	a.wantOutput("inactive", "systemctl is-active hpad || true")
	a.wantOutput("", "ls -d /var/lib/hpad /var/cache/hpad /etc/hpad /usr/bin/hpad /run/hpad /usr/share/doc/hpad 2>/dev/null || true")
	a.wantOutput("", "find /etc/systemd/system /var/lib/systemd -name 'hpad.service*' -not -name hpad.service.d")
}
