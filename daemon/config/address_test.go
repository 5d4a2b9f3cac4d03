package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
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
	"process path":         "[fleets.f]\nkind = \"process\"\n[fleets.f.services.a]\ncommand = [\"a\"]\nports = \"9000\"\nreadiness = { http = \"/%s\" }",
	"systemd path":         "[fleets.f]\nkind = \"systemd\"\n[fleets.f.templates.\"web@.service\"]\nready_probe = { http = \"http://127.0.0.1:91%%i/%s\" }",
	"swarm nodes":          "[fleets.f]\nkind = \"swarm\"\nnodes = { a = \"tcp://%s:2376\" }",
	"scrape path":          "[sources.e]\nkind = \"embedded\"\nscrape = [{ job = \"a\", addresses = [\"127.0.0.1:9100\"], path = \"/%s\" }]",
	"aws auto_scaling":     "[fleets.f]\nkind = \"awsasg\"\nendpoints = { auto_scaling = \"https://%s:443\" }",
	"aws ec2":              "[fleets.f]\nkind = \"awsasg\"\nendpoints = { ec2 = \"https://%s:443\" }",
	"aws sts":              "[fleets.f]\nkind = \"awsasg\"\nendpoints = { sts = \"https://%s:443\" }",
	"azure endpoint":       "[fleets.f]\nkind = \"azurevmss\"\nsubscription = \"a\"\nendpoint = \"https://%s:443\"",
	"azure authority":      "[fleets.f]\nkind = \"azurevmss\"\nsubscription = \"a\"\nauthority_host = \"https://%s:443\"",
	"azure path":           "[fleets.f]\nkind = \"azurevmss\"\nsubscription = \"a\"\naudience = \"https://a.example/%s\"",
	"google endpoint":      "[fleets.f]\nkind = \"gcemig\"\nproject = \"my-project\"\nendpoint = \"https://%s:443/compute/v1/\"",
	"drain webhook":        "[fleets.f]\nkind = \"awsasg\"\n[autoscalers.a]\ntarget = { fleet = \"f\", group = \"g\", requests = { cpu = 1 } }\nmax_replicas = 1\nmin_replicas = 0\nmetrics = [{ type = \"External\", name = \"n\", source = \"p\", query = \"x\", average_value = 1 }]\ndrain = { kind = \"webhook\", url = \"https://%s:443/hook\" }\n[sources.p]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"",
	"socket path":          "[daemon]\nsocket = \"/run/%s/hpad.sock\"",
	"state path":           "[daemon]\nstate_dir = \"/var/lib/%s\"",
	"token path":           "[fleets.f]\nkind = \"nomad\"\ntoken_file = \"%s/token\"",
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
		if isOmitted(text) {
			continue
		}
		for _, host := range []string{"${HOST}", "$HOST", "{{ .Values.host }}", "<host>", "%s", "[[host]]", "__HOST__"} {
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

// isOmitted reports whether a configuration has a kind that is not part of the build.
func isOmitted(text string) bool {
	for kind := range kinds.Omitted() {
		if strings.Contains(text, strconv.Quote(kind)) {
			return true
		}
	}
	return false
}

// TestPlaceKeys checks that each key whose name suggests an address or a path is checked for variables.
func TestPlaceKeys(t *testing.T) {
	docs, err := os.ReadFile("../../docs/config-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	suggestive := regexp.MustCompile(`(?i)(addr|url|host|endpoint|listen|socket|server|http|tcp|file|dir|path|uri|proxy|domain|audience)`)
	other := []string{
		"server_name_label", "socket_group", "pages", // not places
		"profile",                   // a name
		"endpoint_params",           // parameters
		"copy_paths", "working_dir", // inside of containers
	}
	found := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:string|array of strings)").FindAllStringSubmatch(string(docs), -1) {
		_, name := cutLast(strings.TrimSuffix(row[1], ".NAME"))
		if !suggestive.MatchString(name) || slices.Contains(other, name) {
			continue
		}
		if found++; !placeKey.MatchString(name) {
			t.Errorf("%s is not checked for variables: add it to placeKey, or to the exceptions of this test", row[1])
		}
	}
	if found < 40 {
		t.Errorf("%d keys with addresses and paths are too few", found)
	}
}

// TestURLFile checks the URL of a receiver in a file that check can read.
func TestURLFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	for address, want := range map[string]string{
		"https://alerts.example.com/hunter2\n": "", "https://me:hunter2@alerts.example.com:8443/hook?a=b": "",
		"https://${HOST}/hunter2": "hpad does not expand variables", "https://a.example:0/hunter2": "65535", "alerts.example.com/hunter2": "must be the URL of a receiver", "": "must be the URL of a receiver",
		"https://me:hunter2@my host/": "must be the URL of a receiver", "ftp://a.example/hunter2": "must be the URL of a receiver",
	} {
		if err := os.WriteFile(path, []byte(address), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Parse("hpad.toml", fmt.Appendf(nil, "[notifications.n]\nurl_file = %q\n", path))
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
	if _, err := Parse("hpad.toml", []byte("[notifications.n]\nurl_file = \"/nonexistent/url\"\n")); err != nil {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

var hostAndPort = regexp.MustCompile(`%s(?::(?:[0-9]|%%i)+)?`)

// TestInvalidPort checks the port of each address that has one.
func TestInvalidPort(t *testing.T) {
	for name, text := range addressKeys {
		if isOmitted(text) {
			continue
		}
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
