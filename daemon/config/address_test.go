package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// addressKeys contains configurations with one address, which is %s.
var addressKeys = map[string]string{
	"daemon.listen":        "[daemon]\nlisten = \"%s:4720\"",
	"daemon.allowed_hosts": "[daemon]\nallowed_hosts = [\"%s\"]",
	"prometheus":           "[sources.p]\nkind = \"prometheus\"\nurl = \"http://%s:9090\"",
	"prometheus tls":       "[sources.p]\nkind = \"prometheus\"\nurl = \"https://a.example\"\ntls = { server_name = \"%s\" }",
	"embedded":             "[sources.e]\nkind = \"embedded\"\nscrape = [{ job = \"a\", addresses = [\"%s:9100\"] }]",
	"nomad":                "[fleets.f]\nkind = \"nomad\"\naddress = \"http://%s:4646\"",
	"nomad socket":         "[fleets.f]\nkind = \"nomad\"\naddress = \"unix:///run/%s\"",
	"compose":              "[fleets.f]\nkind = \"compose\"\nhost = \"tcp://%s:2376\"",
	"compose ssh":          "[fleets.f]\nkind = \"compose\"\nhost = \"ssh://me@%s\"",
	"swarm":                "[fleets.f]\nkind = \"swarm\"\nhost = \"tcp://%s:2376\"",
	"systemd":              "[fleets.f]\nkind = \"systemd\"\naddress = \"/run/%s/private\"",
	"systemd http":         "[fleets.f]\nkind = \"systemd\"\n[fleets.f.templates.\"web@.service\"]\nready_probe = { http = \"http://%s:%%i/ready\" }",
	"systemd tcp":          "[fleets.f]\nkind = \"systemd\"\n[fleets.f.templates.\"web@.service\"]\nready_probe = { tcp = \"%s:91%%i\" }",
	"notification":         "[notifications.n]\nurl = \"https://%s/hook\"\nevents = [\"failed\"]",
	"notification path":    "[notifications.n]\nurl = \"https://a.example/%s\"\nevents = [\"failed\"]",
	"etcd":                 "[ha]\naddress = \"https://10.0.0.1:4720\"\netcd = { endpoints = [\"https://%s:2379\"] }",
	"member":               "[ha]\naddress = \"https://%s:4720\"\netcd = { endpoints = [\"https://10.0.0.1:2379\"] }",
	"nomad store":          "[ha]\nstore = \"nomad\"\naddress = \"https://10.0.0.1:4720\"\nnomad = { address = \"http://%s:4646\" }",
}

// TestUnexpandedAddress checks that each address rejects variables of different tools and names the
// remedy.
func TestUnexpandedAddress(t *testing.T) {
	for name, text := range addressKeys {
		for _, host := range []string{"${HOST}", "$HOST", "{{ .Values.host }}", "<host>", "%s", "[[host]]"} {
			_, err := Parse("hpad.toml", fmt.Appendf(nil, text, host))
			if err == nil || !strings.Contains(err.Error(), "hpad does not expand variables") || !strings.Contains(err.Error(), "ExecStartPre") {
				t.Errorf("%s with %q: %v, want an error about the variable", name, host, err)
			}
		}
		if strings.Contains(name, "socket") || name == "systemd" || strings.Contains(name, "path") {
			continue
		}
		for _, host := range []string{"my host", "300.1.2.3", "-a", "a..b"} {
			if _, err := Parse("hpad.toml", fmt.Appendf(nil, text, host)); err == nil || !strings.Contains(err.Error(), "must be") {
				t.Errorf("%s with %q: %v, want an error about the form", name, host, err)
			}
		}
	}
}

var hostAndPort = regexp.MustCompile(`%s(?::(?:[0-9]|%%i)+)?`)

// TestInvalidPort checks the port of each address that has one.
func TestInvalidPort(t *testing.T) {
	for name, text := range addressKeys {
		if _, err := Parse("hpad.toml", fmt.Appendf(nil, text, "a.example")); err != nil {
			t.Errorf("%s: %v, want no error", name, err)
		}
		if strings.ContainsAny(name, " .") && !strings.Contains(text, "%s:") || name == "systemd" {
			continue // no port is allowed
		}
		for _, port := range []string{"0", "65536", "http", ""} {
			changed := hostAndPort.ReplaceAllString(text, "127.0.0.1:"+port)
			if name == "daemon.listen" && port == "0" {
				continue // the system chooses the port
			}
			if _, err := Parse("hpad.toml", []byte(changed)); err == nil || !strings.Contains(err.Error(), "65535") {
				t.Errorf("%s with port %q: %v, want an error about the port\n%s", name, port, err, changed)
			}
		}
	}
}
