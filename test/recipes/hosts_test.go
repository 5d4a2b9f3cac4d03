package recipes

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/systemd/systemdtest"
)

// TestUnits checks that an instance is not ready until its socket accepts connections.
func TestUnits(t *testing.T) {
	t.Parallel()
	m := systemdtest.Start(t)
	k := newKitchen(t, "/usr/bin/python3")
	home := strings.TrimPrefix(m.Environment()[0], "HOME=")
	for _, variable := range m.Environment() {
		if !strings.HasPrefix(variable, "PATH=") {
			k.environment = append(k.environment, variable)
		}
	}
	first := strconv.Itoa(ports.Block(t, 8))
	k.replace = append([]string{
		"/etc/systemd/system", home + "/.config/systemd/user", `kind = "systemd"`, "kind = \"systemd\"\nmanager = \"user\"",
		"ExecStart=", "ExecStart=/bin/sh -c 'sleep 5; exec \"$@\"' sh ", "8001", first,
		"sleep 60", "timeout 60 sh -c 'until hpad describe web | grep \"Running, not ready\"; do sleep 0.2; done' && timeout 60 sh -c 'until hpad describe web | grep \"^Instances: .*2 ready\"; do sleep 1; done'",
	}, k.replace...)
	k.cook(nil, "Web workers in systemd units")
	if got := m.Units(t, "web@*", "active"); len(got) != 2 || got[0] != "web@"+first+".service" {
		t.Errorf("active units: %v", got)
	}
}

// TestAnsible checks that the play is idempotent, and that an invalid file stops it before hpad
// reloads.
func TestAnsible(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, "ansible-playbook")
	k.replace = append(k.replace, "become: true", "become: false")
	k.environment = append(k.environment, "HOME="+k.dir, "ANSIBLE_NOCOLOR=1")
	k.write("/etc/ansible/files/hpad.toml", k.daemon(time.Second))
	k.after = `
cd ` + k.dir + `/etc
echo 'autoscalers.worker.mode = "wrong"' >ansible/files/conf.d/wrong.toml
! ansible-playbook --inventory localhost, --connection local ansible/hpad.yml >$RECIPE/play.log
grep -q '"rc": 3' $RECIPE/play.log || { cat $RECIPE/play.log; exit 1; }
test "$(hpad check >/dev/null 2>&1; echo $?)" = 3
test "$(hpad reload >/dev/null 2>&1; echo $?)" = 1
hpad get worker
`
	k.cook(nil, "A configuration for Ansible")
}

// TestBackup restores the configuration and a pause of the example for Ansible.
func TestBackup(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	k.write("/etc/hpad/conf.d/worker.toml", k.example("A configuration for Ansible", "toml"))
	k.after = "hpad get worker | grep -i paused\nhpad history worker | grep -i paused\n"
	k.before = "hpad pause worker --reason 'before the backup'\n"
	k.replace = append(k.replace, "state import", "state import --state-dir "+k.dir+"/var/lib/hpad")
	k.cook(nil, "Backup and restore")
}
