package packages

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/traffic"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// TestUpgradeUnderLoad installs the pools of docs/proxies.md with the rights that the page
// describes. It upgrades the package while the pool is under load and checks that no request fails.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	shared := share(t,
		filepath.Join(all.in(t), deb(oldVersion, runtime.GOARCH)),
		filepath.Join(newer.in(t), deb(newVersion, runtime.GOARCH)))
	worker, err := os.ReadFile("../proxy/testdata/web.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "web.py"), worker, 0o600); err != nil {
		t.Fatal(err)
	}
	m := boot(t, shared)
	m.run("install -m 0755 /mnt/web.py /usr/local/bin/web; rm /etc/nginx/sites-enabled/default")
	m.run("dpkg --install /mnt/0.deb; install -D -m 0644 -t /etc/systemd/system/hpad.service.d " + examples + "/process.conf; systemctl daemon-reload")
	for heading, proxy := range map[string]string{"nginx": "nginx", "HAProxy with a reload": "haproxy", "HAProxy without a reload": "haproxy"} {
		t.Run(heading, func(t *testing.T) {
			p := &machine{t: t, engine: m.engine}
			p.pool(heading, proxy)
			load := traffic.Start(t, "http://127.0.0.1/", m.engine.Dial)
			for range soak.Rounds(1, 10) {
				p.run("dpkg --install /mnt/0.deb")
				load.Check(t, "scale from 1 to 4", func() { p.scale(4) })
				workers := p.run("pgrep --full '^python3 '")
				load.Check(t, "upgrade", func() { p.run("dpkg --install /mnt/1.deb") })
				p.wantOutput(workers, "pgrep --full '^python3 '")
				load.Check(t, "scale from 4 to 1", func() { p.scale(1) })
				load.Check(t, "reload of the proxy", func() { p.run("systemctl reload " + proxy) })
				p.wantOutput("", "hpad describe web | grep '^EndpointsFailed *True' || true")
			}
		})
	}
	t.Run("stop", func(t *testing.T) { (&machine{t: t, engine: m.engine}).stopWorkers() })
}

// runningWorkers is a script that counts the workers of the pool.
const runningWorkers = "pgrep --count --full '^python3 ' || true"

// stopWorkers checks which ways to stop hpad also stop its workers, as docs/process.md describes.
func (m *machine) stopWorkers() {
	m.run("systemctl stop hpad")
	m.wantOutput("1", runningWorkers)
	for _, stop := range []string{"hpad scale web 0 --force", "systemctl kill hpad; systemctl stop hpad", "dpkg --remove hpad"} {
		m.run("systemctl restart hpad")
		m.run("hpad scale web 1")
		m.await(patience, "1", runningWorkers)
		m.run(stop)
		m.await(patience, "0", runningWorkers)
	}
	m.run("dpkg --install /mnt/1.deb")
	m.await(patience, "1", runningWorkers)
	m.run("systemctl stop hpad; dpkg --remove hpad")
	m.await(patience, "0", runningWorkers)
}

// writtenPath matches the path of a file in the first line of an example.
var writtenPath = regexp.MustCompile(`^(?:#|//) (/etc/\S+)`)

// pool installs the files of a section of docs/proxies.md, and starts its pool and its proxy.
func (m *machine) pool(heading, proxy string) {
	m.t.Helper()
	m.run("systemctl stop nginx haproxy; echo >/etc/default/haproxy")
	const page = "../../docs/proxies.md"
	for _, block := range append(guide.Blocks(m.t, page, heading), guide.Blocks(m.t, page, "Files and rights")...) {
		switch path := writtenPath.FindStringSubmatch(block.Text); {
		case block.Language == "toml":
			m.write("/etc/hpad/conf.d/web.toml", block.Text)
		case block.Language == "sh":
			m.write("/usr/local/bin/haproxy-web", block.Text)
			m.run("chmod 0755 /usr/local/bin/haproxy-web; usermod -aG haproxy hpad")
		case strings.HasPrefix(block.Text, "EXTRAOPTS"):
			m.write("/etc/default/haproxy", block.Text)
		case path != nil:
			m.write(path[1], strings.ReplaceAll(block.Text, "nginx.service", proxy+".service"))
		}
	}
	m.run("install -d -o hpad -g hpad /etc/haproxy/hpad; systemctl daemon-reload; systemctl restart hpad")
	m.scale(1)
	m.run("systemctl start " + proxy)
	client := &http.Client{Transport: &http.Transport{DialContext: m.engine.Dial, DisableKeepAlives: true}}
	wait.For(m.t, patience, "response through the proxy", func() (string, bool) {
		err := traffic.Get(m.t.Context(), client, "http://127.0.0.1/")
		return fmt.Sprint(err), err == nil
	})
	// The command failed if the proxy did not run, and hpad tries again.
	m.await(patience, "", "hpad describe web | grep '^EndpointsFailed *True' || true")
}

// scale makes hpad run count workers, and waits until all are ready and no others run.
func (m *machine) scale(count int) {
	m.t.Helper()
	m.run(fmt.Sprintf("sed -i -E 's/^(min|max)_replicas = .*/\\1_replicas = %d/' /etc/hpad/conf.d/web.toml; systemctl reload hpad", count))
	m.await(patience, fmt.Sprint(count), runningWorkers)
	m.await(patience, fmt.Sprint(count), `hpad get web --output json | sed -n 's/.*"ready": \([0-9]*\).*/\1/p' | head -n 1`)
}
