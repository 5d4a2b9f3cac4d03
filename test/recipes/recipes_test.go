package recipes

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) { program.Exit(parallel.Run(m, 8)) }

const recipes = "../../docs/recipes.md"

// kitchen is a directory that takes the place of the file system in a recipe, with its own ports.
type kitchen struct {
	t           *testing.T
	dir         string
	environment []string
	// replace contains pairs of a text of the recipe and its replacement. before and
	// after are scripts that run before and after the recipe.
	replace       []string
	before, after string
}

// newKitchen skips the test if a program is missing.
func newKitchen(t *testing.T, programs ...string) *kitchen {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			installed.Absent(t, name+" is missing: run test/install/recipes.sh")
		}
	}
	dir, err := os.MkdirTemp("", "hpad-recipe") // the paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	shims, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	k := &kitchen{t: t, dir: dir, environment: []string{
		"RECIPE=" + dir, "HPAD_CONFIG=" + dir + "/etc/hpad/hpad.toml", "HPAD_SOCKET=" + dir + "/sock",
		"PATH=" + shims + ":" + filepath.Dir(program.Binary(t)) + ":" + os.Getenv("PATH"),
	}}
	for _, path := range []string{"/etc/", "/usr/local/bin/", "/var/lib/hpad/", "/backup/"} {
		k.replace = append(k.replace, path, dir+path)
	}
	for _, path := range []string{"/etc/hpad/conf.d", "/etc/default", "/etc/rabbitmq", "/etc/ansible/files/conf.d", "/etc/nginx/conf.d", "/usr/local/bin", "/var/lib/hpad", "/backup"} {
		if err := os.MkdirAll(dir+path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	k.write("/etc/hpad/hpad.toml", k.daemon(time.Second))
	t.Cleanup(func() {
		child.KillMarked(t, "RECIPE="+dir)
		if log, _ := os.ReadFile(dir + "/hpad.log"); t.Failed() {
			t.Logf("log of hpad:\n%s", log[max(0, len(log)-8000):])
		}
		_ = os.RemoveAll(dir)
	})
	return k
}

// daemon returns hpad's main configuration with a sync period.
func (k *kitchen) daemon(sync time.Duration) string {
	return fmt.Sprintf("[daemon]\nlisten = \"\"\nsocket = \"%s/sock\"\nstate_dir = \"%s/var/lib/hpad\"\nsync_period = \"%s\"\n", k.dir, k.dir, sync)
}

func (k *kitchen) write(path, text string) {
	k.t.Helper()
	if err := os.WriteFile(k.dir+path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// port replaces a port of the recipe with a free one, whose number is in an environment variable.
func (k *kitchen) port(old, variable string) string {
	free := strconv.Itoa(ports.Port(k.t))
	k.replace = append(k.replace, old, free)
	k.environment = append(k.environment, variable+"="+free)
	return free
}

// systemctl runs a command in the kitchen.
func (k *kitchen) systemctl(arguments ...string) {
	k.t.Helper()
	command := exec.CommandContext(k.t.Context(), "testdata/systemctl", arguments...)
	command.Env = append(os.Environ(), k.environment...)
	if output, err := command.CombinedOutput(); err != nil {
		k.t.Fatalf("systemctl %q: %v: %s", arguments, err, output)
	}
}

// cook starts hpad, runs the sections below some headings, stops hpad, and returns the output of
// each command. skipped contains the first lines of examples that do not run.
func (k *kitchen) cook(skipped []string, headings ...string) map[string]string {
	k.t.Helper()
	k.systemctl("start", "hpad")
	text := "```sh\n" + k.before + "\n```\n"
	for _, heading := range headings {
		text += guide.Section(k.t, recipes, heading) + "\n"
	}
	text = strings.NewReplacer(k.replace...).Replace(text + "```sh\n" + k.after + "\nsystemctl stop hpad\n```\n")
	k.write("/page.md", text)
	page := &guide.Page{Path: k.dir + "/page.md", Dir: "/", Environment: k.environment, Skip: map[string]string{}}
	for _, first := range skipped {
		page.Skip[first] = "the test has its own programs"
	}
	return guide.Run(k.t, page)
}

// TestQueues checks that the workers of all queues increase, complete all jobs, and decrease.
func TestQueues(t *testing.T) {
	t.Parallel()
	const rabbit = "Workers for a RabbitMQ queue"
	consumed := `[ "$(sort -u /var/lib/hpad/finished | wc -l)" = 100 ]`
	broker := []string{"/usr/lib/rabbitmq/bin/rabbitmq-server", "amqp-consume"}
	for _, queue := range []struct {
		headings  []string
		done, apt string
		programs  []string
		// ports maps ports of the recipe, or names of other ports, to environment variables.
		ports map[string]string
		// prepare is optional.
		prepare func(k *kitchen)
	}{
		{
			[]string{"Workers for a Redis queue"},
			`[ "$(redis-cli -p "$REDIS_PORT" get done)" = 100 ]`, "apt install redis-server prometheus-redis-exporter python3-redis",
			[]string{"redis-server", "prometheus-redis-exporter", "/usr/bin/python3"},
			map[string]string{"6379": "REDIS_PORT", "9121": "EXPORTER_PORT"},
			nil,
		},
		{
			[]string{rabbit},
			consumed, "apt install rabbitmq-server amqp-tools", broker,
			map[string]string{"5672": "AMQP_PORT", "15692": "EXPORTER_PORT", "its cluster": "DIST_PORT", "its port mapper": "EPMD_PORT"},
			nil,
		},
		{
			// The files of the second section replace those of the first one.
			[]string{rabbit, "A queue behind a JSON API"},
			consumed, "apt install rabbitmq-server amqp-tools", broker,
			map[string]string{"15672": "API_PORT", "5672": "AMQP_PORT", "its cluster": "DIST_PORT", "its port mapper": "EPMD_PORT"},
			nil,
		},
		{
			[]string{"Workers for a PostgreSQL table"},
			`[ "$(psql -U hpad jobs -Atc "SELECT count(*) FROM jobs WHERE state = 'done'")" = 100 ]`, "apt install postgresql",
			[]string{"psql", "setpriv"},
			map[string]string{"5432": "PGPORT"},
			(*kitchen).forPostgreSQL,
		},
	} {
		t.Run(queue.headings[len(queue.headings)-1], func(t *testing.T) {
			t.Parallel()
			k := newKitchen(t, queue.programs...)
			for _, port := range slices.Backward(slices.Sorted(maps.Keys(queue.ports))) { // 15672 before 5672
				k.port(port, queue.ports[port])
			}
			if queue.prepare != nil {
				queue.prepare(k)
			}
			k.replace = append(k.replace, `stabilization_window = "1m"`, `stabilization_window = "3s"`,
				"sleep 120", "until "+strings.ReplaceAll(queue.done, "/var/lib", k.dir+"/var/lib")+" && hpad history queue | grep -q 'Scaled down.* to 1:'; do sleep 1; done")
			history := k.cook([]string{queue.apt}, queue.headings...)["hpad history queue"]
			guide.WantScaling(t, history)
		})
	}
}

// forPostgreSQL prepares a server whose files belong to its own user. The test has no user for hpad. At the
// end, it stops the server and checks that hpad shows the error and keeps its worker.
func (k *kitchen) forPostgreSQL() {
	dir, err := os.MkdirTemp("", "hpad-pg")
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			installed.Absent(k.t, "PostgreSQL is missing: run test/install/recipes.sh")
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			k.t.Fatal(err)
		}
	}
	k.environment = append(k.environment, "PGHOST="+dir, "PGUSER=postgres")
	k.replace = append(k.replace, "/run/postgresql", dir, "runuser -u postgres -- ", "", "runuser -u hpad -- psql", "psql -U hpad")
	k.after = `
systemctl stop postgresql
timeout 60 sh -c 'until hpad explain queue | grep "exit status 2: .*Is the server running"; do sleep 0.5; done'
hpad get queue | grep ' 1 .*FailedGetExternalMetric'
`
}

// TestProxiedPrometheus checks that hpad reads a Prometheus server behind nginx, with a password and TLS,
// and that it shows a wrong password and keeps the count.
func TestProxiedPrometheus(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, "prometheus", "/usr/sbin/nginx", "openssl")
	k.port("9443", "NGINX_PORT")
	k.port("9090", "PROMETHEUS_PORT")
	k.replace = append(k.replace, "sum(queue_length)", "vector(25)", "chown hpad: ", "true ",
		"sleep 30", "timeout 60 sh -c 'until hpad get worker | grep \" 3 \"; do sleep 0.5; done'")
	k.after = `
chmod 600 /etc/hpad/prometheus-password
echo wrong >/etc/hpad/prometheus-password
timeout 60 sh -c 'until hpad explain worker | grep "401 Unauthorized"; do sleep 0.5; done'
hpad get worker | grep ' 3 .*FailedGetExternalMetric'
`
	k.cook([]string{"apt install prometheus nginx-light openssl"}, "Prometheus behind nginx")
}
