package proxy

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/targets/rollout"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/traffic"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// proxies starts the proxy of each recipe.
var proxies = map[string]func(p *pool){
	"nginx": func(p *pool) {
		p.write("nginx.conf", "daemon off; pid "+p.path("nginx.pid")+"; error_log stderr; worker_processes 2;\nevents {}\n"+
			"http { access_log off; client_body_temp_path "+p.path("body")+"; proxy_temp_path "+p.path("proxy")+"; fastcgi_temp_path "+p.path("fastcgi")+
			"; uwsgi_temp_path "+p.path("uwsgi")+"; scgi_temp_path "+p.path("scgi")+"; include "+p.path("proxy.conf")+"; }\n", 0o600)
		p.write("reload", "#!/bin/sh\nkill -HUP $(cat "+p.path("nginx.pid")+")\n", 0o700)
		p.awaitFile("nginx-web.conf")
		p.run("nginx", "-c", p.path("nginx.conf"), "-p", p.dir)
	},
	"HAProxy with a reload": func(p *pool) {
		p.write("reload", "#!/bin/sh\nkill -USR2 $(cat "+p.path("haproxy.pid")+")\n", 0o700)
		p.awaitFile("haproxy-web.cfg")
		p.run("haproxy", "-W", "-p", p.path("haproxy.pid"), "-f", p.path("proxy.conf"), "-f", p.path("haproxy-web.cfg"))
	},
	"HAProxy without a reload": func(p *pool) {
		p.run("haproxy", "-W", "-p", p.path("haproxy.pid"), "-f", p.path("proxy.conf"))
		p.awaitFile("haproxy-web.servers")
	},
}

// awaitFile waits until the file with the endpoints contains the first worker.
func (p *pool) awaitFile(name string) {
	p.t.Helper()
	wait.Soon(p.t, "file with endpoints", func() bool {
		text, err := os.ReadFile(p.path(name))
		return err == nil && strings.Contains(string(text), strconv.Itoa(p.first))
	})
}

// steps are the changes under load, in this order.
var steps = []struct {
	name string
	do   func(p *pool)
}{
	{"scale from 1 to 8", func(p *pool) { p.scale(8) }},
	{"restart of hpad", func(p *pool) { p.restart((*pool).Stop) }},
	{"kill of hpad", func(p *pool) { p.restart((*pool).Kill) }},
	{"kill of hpad while it scales from 8 to 4", func(p *pool) {
		p.wanted.Store(4)
		p.awaitCounts("terminating worker", func(counts api.Instances) bool { return counts.Deleting > 0 })
		p.Kill()
		p.load.Await(p.t)
		p.Start()
		p.await(4)
	}},
	{"replacement of 4 workers", func(p *pool) {
		before := p.await(4)
		p.version++
		p.reconfigure(fmt.Sprintf("env = { VERSION = \"%d\" }\n", p.version))
		wait.For(p.t, world.Patience, "replaced workers", func() (string, bool) {
			list, err := api.Get[api.InstanceList](p.t.Context(), p.Client, api.Path("autoscalers", "web", "instances"), nil)
			kept := slices.ContainsFunc(list.Instances, func(i api.Instance) bool { return slices.Contains(before, i.ID) })
			return fmt.Sprintf("%+v, %v", list.Instances, err), err == nil && !kept && list.Counts() == api.Instances{Ready: 4}
		})
	}},
	{"replacement by workers that never become ready", func(p *pool) {
		before := p.await(4)
		p.reconfigure("progress_deadline = \"3s\"\nenv = { UNREADY = \"1\" }\n")
		p.Await("web", rollout.ReplacementFailing, rollout.ProgressDeadlineExceeded, "ready")
		if output, _ := p.CLI("get"); !strings.Contains(output, string(rollout.ReplacementFailing)) {
			p.t.Errorf("get does not show the problem:\n%s", output)
		}
		p.load.Await(p.t)
		p.reconfigure(fmt.Sprintf("env = { VERSION = \"%d\" }\n", p.version))
		if after := p.await(4); !slices.Equal(before, after) {
			p.t.Errorf("the workers are %v, want %v", after, before)
		}
	}},
	{"scale from 4 to 1", func(p *pool) { p.scale(1) }},
}

// reconfigure reloads the configuration with additional keys of the service.
func (p *pool) reconfigure(keys string) {
	p.t.Helper()
	p.Configure(strings.Replace(p.config, "\nports ", "\n"+keys+"ports ", 1))
	if _, err := api.Post[api.ReloadChanges](p.t.Context(), p.Client, api.PathReload, nil); err != nil {
		p.t.Fatal(err)
	}
}

// restart ends hpad, starts it again, and checks that the same eight workers still run.
func (p *pool) restart(end func(*pool)) {
	p.t.Helper()
	before := p.await(8)
	end(p)
	p.load.Await(p.t)
	p.Start()
	if after := p.await(8); !slices.Equal(before, after) {
		p.t.Errorf("the workers are %v, want %v", after, before)
	}
}

// TestNoRequestFails checks that no request fails in any step with any proxy.
func TestNoRequestFails(t *testing.T) {
	t.Parallel()
	for heading, start := range proxies {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, heading)
			p.Start()
			p.await(1)
			start(p)
			p.load = traffic.Start(t, p.url(), nil)
			for range soak.Rounds(1, 10) {
				for _, step := range steps {
					p.load.Check(t, step.name, func() { step.do(p) })
				}
			}
		})
	}
}

// TestRequestsPerSecond checks that the example with the embedded source scales with the load.
func TestRequestsPerSecond(t *testing.T) {
	t.Parallel()
	p := newPool(t, "nginx")
	p.config, _, _ = strings.Cut(p.config, "\n[sources.prom]")
	example := guide.Blocks(t, "../../docs/proxies.md", "Scaling by requests per second")[0].Text
	p.config += example[strings.Index(example, "\n[sources.own]"):]
	p.Configure(p.config)
	p.Start()
	p.await(1)
	proxies["nginx"](p)
	p.load = traffic.Start(t, p.url(), nil)
	wait.For(t, world.Patience, "second worker", func() (string, bool) {
		list, err := api.Get[api.InstanceList](t.Context(), p.Client, api.Path("autoscalers", "web", "instances"), nil)
		return fmt.Sprintf("%+v, %v", list.Counts(), err), err == nil && list.Counts().Ready > 1
	})
}

// TestTraefik checks that the file for Traefik is valid YAML with and without instances.
func TestTraefik(t *testing.T) {
	t.Parallel()
	p := newPool(t, "Traefik")
	if err := os.Mkdir(p.path("traefik"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.Start()
	p.await(1)
	p.awaitFile("traefik/web.yml")
	text, err := os.ReadFile(p.path("traefik/web.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		HTTP struct {
			Services map[string]struct {
				LoadBalancer struct{ Servers []struct{ URL string } }
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if servers := file.HTTP.Services["web"].LoadBalancer.Servers; len(servers) != 1 || !strings.HasPrefix(servers[0].URL, "http://127.0.0.1:") {
		t.Errorf("servers %+v in\n%s", servers, text)
	}
}

// TestEndpointsFail checks that hpad reports why it cannot publish endpoints, and still scales.
// hpad rejects an invalid template at the start (TestTemplates of daemon/endpoints).
func TestEndpointsFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, replacement, want string }{
		"command": {`/reload"]`, `/missing"]`, "no such file"},
		"disk":    {"/nginx-web.conf", "/full/nginx-web.conf", "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "nginx")
			if name == "disk" {
				fullDisk(t, p.path("full"))
			}
			p.write("reload", "#!/bin/sh\n", 0o700)
			p.config = strings.Replace(p.config, test.old, test.replacement, 1)
			p.Configure(p.config)
			p.Start()
			p.Await("web", "EndpointsFailed", "PublishFailed", test.want)
			p.scale(3)
			p.Await("web", "EndpointsFailed", "PublishFailed", test.want)
			p.scale(1)
		})
	}
}

// fullDisk mounts a file system without free space.
func fullDisk(t *testing.T, path string) {
	t.Helper()
	installed.Mount(t, path, "size=4k")
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	if err := os.WriteFile(path+"/file", make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
}
