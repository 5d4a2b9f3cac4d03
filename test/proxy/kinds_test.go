package proxy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/systemd/systemdtest"
	"github.com/hpad/hpad/test/wait"
)

// localKinds starts an instance of a fleet of each kind on this host, except processes, which the
// other tests of this package use. The functions return the configuration of the fleet and the keys
// of the target.
var localKinds = map[string]func(t *testing.T) (fleet, target string){
	"systemd": func(t *testing.T) (fleet, target string) {
		m := systemdtest.Start(t)
		m.Unit(t, "web@.service", "[Service]\nExecStart=/bin/sleep infinity\n")
		m.Control(t, "start", "web@8001.service")
		return fmt.Sprintf("[fleets.local]\nkind = \"systemd\"\nmanager = \"user\"\naddress = %q\n"+
			"templates.\"web@.service\" = { first_index = 8001, port = \"%%i\" }\n", m.Socket), `template = "web@.service"`
	},
	"compose": func(t *testing.T) (fleet, target string) {
		e := dockertest.Start(t, dockertest.Options{})
		e.ImportWorker(t, dockertest.Worker, "1", "EXPOSE 8080")
		e.Project(t, "shop", "services: { web: { image: "+dockertest.Worker+" } }\n").Compose("up", "--detach")
		return fmt.Sprintf("[fleets.local]\nkind = \"compose\"\nhost = %q\n", e.Host()), "project = \"shop\"\nservice = \"web\""
	},
}

// checks validates the file of each example with its proxy. The file contains two instances.
var checks = map[string]func(t *testing.T, dir, file string){
	"nginx": func(t *testing.T, dir, file string) {
		config := filepath.Join(dir, "nginx.conf")
		writeText(t, config, "pid "+dir+"/pid; error_log stderr; events {}\nhttp { access_log off; include "+file+"; }\n")
		validate(t, "nginx", "-t", "-p", dir, "-c", config)
	},
	"HAProxy with a reload": func(t *testing.T, dir, file string) {
		config := filepath.Join(dir, "haproxy.cfg")
		writeText(t, config, "defaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n"+
			"frontend web\n    bind unix@"+dir+"/socket\n    default_backend web\n")
		validate(t, "haproxy", "-c", "-f", config, "-f", file)
	},
	"HAProxy without a reload": func(t *testing.T, _, file string) {
		names := strings.Fields(readText(t, file))
		servers := guide.Section(t, "../../docs/proxies.md", "HAProxy without a reload")
		for _, name := range names {
			if !strings.Contains(servers, "    server "+name+" ") {
				t.Errorf("the example has no server %q", name)
			}
		}
	},
	"Traefik": func(t *testing.T, _, file string) {
		var content any
		if err := yaml.Unmarshal([]byte(readText(t, file)), &content); err != nil {
			t.Error(err)
		}
		text, _ := json.Marshal(content)
		if n := strings.Count(string(text), `"url":"http://`); n != 2 {
			t.Errorf("%d servers, want 2: %s", n, text)
		}
	},
}

// unsuitable lists the examples that a kind cannot use, with the reason.
var unsuitable = map[string]string{
	"compose HAProxy without a reload": "its servers have ports of this host, and containers have addresses of their own",
}

// TestLocalKinds checks that the proxies accept the files of the examples with instances of each
// local kind, whose IDs and addresses differ.
func TestLocalKinds(t *testing.T) {
	t.Parallel()
	for kind, start := range localKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			fleet, target := start(t)
			dir := t.TempDir()
			configure := func(heading, file string) string {
				template, err := toml.Marshal(map[string]string{"template": exampleOf(t, heading).Template})
				if err != nil {
					t.Fatal(err)
				}
				return fleet + `
[sources.own]
kind = "embedded"
[autoscalers.web]
min_replicas = 1
max_replicas = 4
[[autoscalers.web.metrics]]
type = "External"
name = "load"
source = "own"
query = "vector(2)"
average_value = "1"
[autoscalers.web.target]
fleet = "local"
` + target + "\n[autoscalers.web.target.endpoints]\nfile = \"" + file + "\"\n" + string(template)
			}
			var p *program.Program
			for heading, check := range checks {
				if unsuitable[kind+" "+heading] != "" {
					continue
				}
				file := filepath.Join(dir, strings.ReplaceAll(heading, " ", "-"))
				if p == nil {
					p = program.New(t, configure(heading, file))
				} else {
					p.Configure(configure(heading, file))
					if _, err := api.Post[api.ReloadChanges](t.Context(), p.Client, api.PathReload, nil); err != nil {
						t.Fatal(err)
					}
				}
				instances := regexp.MustCompile(`:80[0-9]{2}\b|web80[0-9]{2}\b`)
				wait.Soon(t, "two instances in the file", func() bool {
					text, err := os.ReadFile(file)
					found := instances.FindAllString(string(text), -1)
					if kind != "compose" {
						slices.Sort(found)
						found = slices.Compact(found)
					}
					return err == nil && len(found) == 2
				})
				t.Run(heading, func(t *testing.T) { check(t, t.TempDir(), file) })
			}
		})
	}
}

// exampleOf returns the endpoints in the example below a heading of the page.
func exampleOf(t *testing.T, heading string) endpoints.Config {
	t.Helper()
	var example struct {
		Autoscalers map[string]struct {
			Target struct{ Endpoints endpoints.Config }
		}
	}
	for _, block := range guide.Blocks(t, "../../docs/proxies.md", heading) {
		if block.Language == "toml" {
			if err := toml.Unmarshal([]byte(block.Text), &example); err != nil {
				t.Fatal(err)
			}
		}
	}
	return example.Autoscalers["web"].Target.Endpoints
}

// validate runs a proxy that checks its configuration.
func validate(t *testing.T, name string, arguments ...string) {
	t.Helper()
	output, err := exec.Command(proxyProgram(t, name), arguments...).CombinedOutput()
	if err != nil {
		t.Errorf("%s rejects the configuration: %v\n%s", name, err, output)
	}
}

// proxyProgram returns the path of a proxy.
func proxyProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := installed.Program(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		installed.Absent(t, name+" is missing: run test/install/proxies.sh")
	}
	return path
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
