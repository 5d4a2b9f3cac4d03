package proxy

import (
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// proxies starts the proxy of each recipe.
var proxies = map[string]func(p *pool){
	"nginx": func(p *pool) {
		p.write("nginx.conf", "daemon off; pid "+p.path("nginx.pid")+"; error_log stderr; worker_processes 2;\nevents {}\n"+
			"http { access_log off; client_body_temp_path "+p.path("body")+"; proxy_temp_path "+p.path("proxy")+"; fastcgi_temp_path "+p.path("fastcgi")+
			"; uwsgi_temp_path "+p.path("uwsgi")+"; scgi_temp_path "+p.path("scgi")+"; include "+p.path("proxy.conf")+"; }\n", 0o600)
		p.write("reload", "#!/bin/sh\n[ ! -s "+p.path("nginx.pid")+" ] || kill -HUP $(cat "+p.path("nginx.pid")+")\n", 0o700)
		p.awaitFile("nginx-web.conf")
		p.run("nginx", "-c", p.path("nginx.conf"), "-p", p.dir)
	},
	"HAProxy with a reload": func(p *pool) {
		p.write("reload", "#!/bin/sh\n[ ! -s "+p.path("haproxy.pid")+" ] || kill -USR2 $(cat "+p.path("haproxy.pid")+")\n", 0o700)
		p.awaitFile("haproxy-web.cfg")
		p.run("haproxy", "-W", "-p", p.path("haproxy.pid"), "-f", p.path("proxy.conf"), "-f", p.path("haproxy-web.cfg"))
	},
	"HAProxy without a reload": func(p *pool) {
		p.run("haproxy", "-W", "-p", p.path("haproxy.pid"), "-f", p.path("proxy.conf"))
		p.awaitFile("haproxy-web.servers")
	},
}

// awaitFile waits until the file with the endpoints contains a worker.
func (p *pool) awaitFile(name string) {
	p.t.Helper()
	wait.Soon(p.t, "file with endpoints", func() bool {
		text, err := os.ReadFile(p.path(name))
		return err == nil && strings.ContainsAny(string(text), "0123456789")
	})
}

// steps are the changes under load, in this order.
var steps = []struct {
	name string
	do   func(p *pool)
}{
	{"scale from 1 to 8", func(p *pool) { p.scale(8) }},
	{"scale from 8 to 1", func(p *pool) { p.scale(1) }},
}

// TestNoRequestFails checks that no request fails in any step with any proxy.
func TestNoRequestFails(t *testing.T) {
	for heading, start := range proxies {
		t.Run(heading, func(t *testing.T) {
			p := newPool(t, heading)
			p.Start()
			p.await(1)
			start(p)
			l := startLoad(p.url())
			t.Cleanup(l.stop)
			for range soak.Rounds(1, 10) {
				for _, step := range steps {
					before, began := l.count.Load(), time.Now()
					step.do(p)
					time.Sleep(time.Second) // requests of the last instances
					count := l.count.Load() - before
					t.Logf("%s: %d requests in %v", step.name, count, time.Since(began).Round(time.Millisecond))
					if failed := l.takeFailed(); len(failed) > 0 {
						t.Errorf("%s: %d of %d requests failed: %s", step.name, len(failed), count, strings.Join(failed[:min(3, len(failed))], "; "))
					}
				}
			}
		})
	}
}

// TestTraefik checks that the file for Traefik is valid YAML with and without instances.
func TestTraefik(t *testing.T) {
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
