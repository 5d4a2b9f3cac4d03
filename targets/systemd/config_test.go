package systemd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/hpad/hpad/targets"
)

func TestParseTemplate(t *testing.T) {
	for name, want := range map[string]template{
		"worker@.service":       "worker",
		"a.b-c_d:e@.service":    "a.b-c_d:e",
		`with\x2ddash@.service`: `with\x2ddash`,
	} {
		if got, problem := parseTemplate(name); got != want || problem != "" {
			t.Errorf("parseTemplate(%q) = %q, %q, want %q", name, got, problem, want)
		}
	}
	for name, hint := range map[string]string{
		"worker":            `did you mean "worker@.service"? A unit`,
		"worker.service":    `did you mean "worker@.service"? A unit`,
		"worker@":           `did you mean "worker@.service"? hpad adds`,
		"worker@1":          `did you mean "worker@.service"? hpad adds`,
		"worker@1.service":  `did you mean "worker@.service"? hpad adds`,
		"worker@.timer":     "only services have replicas",
		"":                  "must be the name of a template",
		"@.service":         "must be the name of a template",
		"a b@.service":      "must be the name of a template",
		"my app@.service":   `did you mean "my\\x20app@.service"? Names`,
		"my app":            `did you mean "my\\x20app@.service"? Names`,
		"größe@1.service":   `did you mean "gr\\xc3\\xb6\\xc3\\x9fe@.service"? Names`,
		"run/app@.service":  `did you mean "run-app@.service"? Names`,
		`a\x2db@1.service`:  `did you mean "a\\x2db@.service"? hpad adds`,
		"worker@@.service":  `did you mean "worker@.service"`,
		"wor*ker@.service":  "must be the name of a template",
		"../evil@.service":  "must be the name of a template",
		"worker@.service\n": "must be the name of a template",
	} {
		if got, problem := parseTemplate(name); got != "" || !strings.Contains(problem, hint) {
			t.Errorf("parseTemplate(%q) = %q, %q, want %q", name, got, problem, hint)
		}
	}
}

func TestStateOf(t *testing.T) {
	for _, c := range []struct {
		active, job string
		want        unitState
	}{
		{"active", "", running},
		{"active", "stop", running},
		{"reloading", "", running},
		{"refreshing", "", running},
		{"activating", "start", pending},
		{"maintenance", "", pending},
		{"deactivating", "stop", stopping},
		{"failed", "", failed},
		{"failed", "start", pending},
		{"inactive", "", absent},
		{"inactive", "start", pending},
		{"inactive", "restart", pending},
		{"inactive", "stop", absent},
		{"something new", "", absent},
	} {
		u := systemd.UnitStatus{ActiveState: c.active, JobType: c.job}
		if c.job != "" {
			u.JobId = 7
		}
		if got := stateOf(u); got != c.want {
			t.Errorf("stateOf(%q with job %q) = %d, want %d", c.active, c.job, got, c.want)
		}
	}
}

func TestAddressOf(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/tmp/session")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "")
	user := &Config{Manager: userManager}
	if got, want := addressOf(user), "unix:path=/tmp/session"; got != want {
		t.Errorf("addressOf() without a private socket = %q, want %q", got, want)
	}
	if err := os.MkdirAll(filepath.Join(runtime, "systemd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(runtime+privateSocket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for c, want := range map[*Config]string{
		user: "unix:path=" + runtime + privateSocket,
		{Manager: userManager, Address: "/run/user/7/systemd/private"}: "unix:path=/run/user/7/systemd/private",
		{Manager: systemManager, Address: "unix:abstract=x"}:           "unix:abstract=x",
	} {
		if got := addressOf(c); got != want {
			t.Errorf("addressOf(%+v) = %q, want %q", *c, got, want)
		}
	}
	if os.Geteuid() != 0 || !exists(systemSocket) {
		if got := addressOf(&Config{Manager: systemManager}); got != systemBus {
			t.Errorf("addressOf() of the system manager = %q, want the bus", got)
		}
	}
}

// TestConnect checks that a missing or silent manager is an error.
func TestConnect(t *testing.T) {
	c := &Config{Manager: userManager, Address: filepath.Join(t.TempDir(), "systemd", "private")}
	c.SetDefaults()
	f := New("vm", c, targets.Env{})
	defer func() { _ = f.Close() }()
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref("worker@.service")})
	if !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), c.Address) || !strings.Contains(err.Error(), "check the fleet's address") {
		t.Errorf("Snapshot() = %v, want ErrTransient with the address", err)
	}
}

func TestClassed(t *testing.T) {
	reply := func(name string) error { return godbus.Error{Name: name, Body: []any{"error details"}} }
	for _, c := range []struct {
		err    error
		class  error
		reason string
		lost   bool
	}{
		{reply("org.freedesktop.systemd1.NoSuchUnit"), targets.ErrTargetNotFound, templateNotFound, false},
		{reply("org.freedesktop.systemd1.UnitMasked"), targets.ErrUnscalable, "", false},
		{reply("org.freedesktop.systemd1.BadUnitSetting"), targets.ErrUnscalable, templateInvalid, false},
		{reply("org.freedesktop.systemd1.OnlyByDependency"), targets.ErrUnscalable, templateInvalid, false},
		{reply("org.freedesktop.systemd1.ShuttingDown"), targets.ErrHeld, "", false},
		{reply("org.freedesktop.DBus.Error.AccessDenied"), targets.ErrForbidden, notAllowed, false},
		{reply("org.freedesktop.DBus.Error.LimitsExceeded"), targets.ErrThrottled, "", false},
		{reply("org.freedesktop.DBus.Error.NoReply"), targets.ErrTransient, "", true},
		{reply("org.freedesktop.DBus.Error.ServiceUnknown"), targets.ErrTransient, "", false},
		{godbus.ErrClosed, targets.ErrTransient, "", true},
		{io.ErrUnexpectedEOF, targets.ErrTransient, "", true},
		{context.DeadlineExceeded, targets.ErrTransient, "", true},
		{context.Canceled, context.Canceled, "", true},
	} {
		got := classify(c.err)
		if !errors.Is(got, c.class) || targets.Reason(got) != c.reason || errors.Is(got, errLost) != c.lost {
			t.Errorf("classify(%v) = %v with reason %q, want %v with %q, lost: %v", c.err, got, targets.Reason(got), c.class, c.reason, c.lost)
		}
	}
	if got := classify(nil); got != nil {
		t.Errorf("classify(nil) = %v", got)
	}
}
