package systemd

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"
)

// template is the name of a unit file without "@.service", such as "worker".
type template string

// templateForm matches valid template names, as systemd formats them.
var templateForm = regexp.MustCompile(`^[A-Za-z0-9:_.\\-]{1,200}@\.service$`)

// parseTemplate parses "worker@.service". For an invalid name, problem describes the error.
func parseTemplate(name string) (t template, problem string) {
	if templateForm.MatchString(name) {
		return template(strings.TrimSuffix(name, "@.service")), ""
	}
	const form = `must be the name of a template's unit file, such as "worker@.service"`
	prefix, instance, isTemplate := strings.Cut(strings.TrimSuffix(name, ".service"), "@")
	meant := escapeName(prefix) + "@.service"
	switch {
	case !templateForm.MatchString(meant):
		return "", form
	case meant != prefix+"@.service":
		return "", fmt.Sprintf("%s; did you mean %q? Names of units are escaped as by systemd-escape", form, meant)
	case !isTemplate:
		return "", fmt.Sprintf("%s; did you mean %q? A unit without @ has only one instance", form, meant)
	case strings.Contains(instance, "."):
		return "", form + "; only services have replicas, not other units"
	}
	return "", fmt.Sprintf("%s; did you mean %q? hpad adds the index itself", form, meant)
}

// escapeName escapes a name as systemd-escape does, except that it keeps escapes and dashes.
func escapeName(name string) string {
	var escaped strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '/':
			escaped.WriteByte('-')
		case nameByte(c):
			escaped.WriteByte(c)
		default:
			fmt.Fprintf(&escaped, `\x%02x`, c)
		}
	}
	return escaped.String()
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(`:_.\-`, c) >= 0
}

func (t template) file() string { return string(t) + "@.service" }

func (t template) unit(index int32) string {
	return string(t) + "@" + strconv.Itoa(int(index)) + ".service"
}

func (t template) pattern() string { return escape(string(t)) + "@*.service" }

func (t template) filePattern() string { return escape(t.file()) }

// escape returns a pattern that matches a name, and possibly others. systemd has no escapes in
// patterns, so that a backslash matches itself only as "?".
func escape(name string) string { return strings.ReplaceAll(name, `\`, "?") }

// index parses the index from the name of an instance. It must be formatted as hpad formats it.
func (t template) index(unit string) (int32, bool) {
	text, ok := strings.CutPrefix(unit, string(t)+"@")
	if ok {
		text, ok = strings.CutSuffix(text, ".service")
	}
	if !ok {
		return 0, false
	}
	index, err := strconv.ParseInt(text, 10, 32)
	if err != nil || index < 0 || strconv.FormatInt(index, 10) != text {
		return 0, false
	}
	return int32(index), true
}

func templateOf(unit string) template {
	prefix, _, _ := strings.Cut(unit, "@")
	return template(prefix)
}

// unitState is the state of a unit as an instance of its target.
type unitState uint8

// absent, the zero value, means that the unit is not listed, or inactive without a pending
// start.
const (
	absent unitState = iota
	pending
	running
	stopping
	failed
)

type unit struct {
	systemd.UnitStatus
	state unitState
}

func stateOf(u systemd.UnitStatus) unitState {
	switch u.ActiveState {
	case "active", "reloading", "refreshing":
		return running
	case "activating", "maintenance":
		return pending
	case "deactivating":
		return stopping
	}
	starting := u.JobId != 0 && (u.JobType == "start" || u.JobType == "restart")
	switch {
	case starting:
		return pending
	case u.ActiveState == "failed":
		return failed
	}
	return absent
}

// alive reports whether the unit is running or about to run.
func (s unitState) alive() bool { return s == running || s == pending }

// restarting reports whether the unit is waiting for its own Restart=.
func (u unit) restarting() bool { return strings.HasPrefix(u.SubState, "auto-restart") }
