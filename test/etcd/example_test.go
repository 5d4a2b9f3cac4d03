package etcd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/wait"
)

// configs is the directory of the example configurations.
const configs = "../../configs/"

// vm is one of the three hosts in the example.
type vm struct {
	name string
	hpad *child.Process
	*api.Client
}

type example struct {
	t                 *testing.T
	etcd              string
	dir, network      string
	nomad, prometheus string
}

func TestExample(t *testing.T) {
	t.Parallel()
	etcd, err := installed.Program("etcd")
	if err != nil {
		installed.Absent(t, "there is no etcd; run test/install/etcd.sh")
	}
	w := sim.New(sim.Options{Jobs: 2})
	go w.Run(t.Context())
	e := &example{
		t: t, etcd: etcd, dir: t.TempDir(), nomad: members.Serve(t, w.Nomad()), prometheus: members.Serve(t, w.Prometheus()),
		network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(255)),
	}
	certs := exec.CommandContext(t.Context(), "sh", configs+"ha-certs.sh", filepath.Join(e.dir, "certs"),
		"vm1="+e.network+"1,127.0.0.1", "vm2="+e.network+"2,127.0.0.1", "vm3="+e.network+"3,127.0.0.1") // for clients that connect on loopback
	if said, err := certs.CombinedOutput(); err != nil {
		t.Fatalf("create certificates: %v\n%s", err, said)
	}
	var vms []*vm
	for n := 1; n <= 3; n++ {
		vms = append(vms, e.start(n))
	}
	await := func(what string, is func() (string, bool)) {
		t.Helper()
		wait.For(t, world.Patience, what, is)
	}
	owner := func(of *vm, count int) string {
		found, err := api.Get[api.Cluster](t.Context(), of.Client, api.Path("cluster"), nil)
		if err != nil || len(found.Members) != count || found.Problem != "" {
			return ""
		}
		for _, member := range found.Members {
			if member.Problem != "" {
				return ""
			}
		}
		return found.Fleets[0].Owner
	}
	for _, each := range vms {
		await("three connected members and an owner", func() (string, bool) {
			found, err := api.Get[api.Cluster](t.Context(), each.Client, api.Path("cluster"), nil)
			return fmt.Sprintf("%+v, %v", found, err), owner(each, 3) != ""
		})
	}
	follows := func(count int) {
		t.Helper()
		w.Ask(1, count)
		await(fmt.Sprint(count, " replicas"), func() (string, bool) {
			truth := w.Truth(1)
			return fmt.Sprintf("%+v", truth), truth.Count == count
		})
	}
	follows(4)
	first, others := owner(vms[0], 3), []*vm{}
	for _, each := range vms {
		if each.name == first {
			each.hpad.Kill()
		} else {
			others = append(others, each)
		}
	}
	await("another owner", func() (string, bool) {
		now := owner(others[0], 2)
		return now, now != "" && now != first
	})
	follows(6)
}

func (e *example) start(n int) *vm {
	e.t.Helper()
	name := fmt.Sprint("vm", n)
	root := filepath.Join(e.dir, name)
	etc := filepath.Join(root, "etc/hpad")
	for _, dir := range []string{etc, filepath.Join(root, "run/hpad"), filepath.Join(root, "var/lib/hpad"), filepath.Join(root, "var/lib/etcd")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			e.t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(etc, "tls"), os.DirFS(filepath.Join(e.dir, "certs", name))); err != nil {
		e.t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		e.t.Fatal(err)
	}
	files := map[string]string{"members-password": "secret\n", "../../../nomad-token": "token\n"}
	for _, file := range []string{"ha-etcd.toml", "ha-etcd.yml", "ha-web.yml"} {
		files[file] = e.adapted(file, root, n, string(hash))
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(etc, file), []byte(text), 0o600); err != nil {
			e.t.Fatal(err)
		}
	}
	e.run(name, e.etcd, "--config-file", filepath.Join(etc, "ha-etcd.yml"))
	hpad := e.run(name, program.Binary(e.t), "run", "--config", filepath.Join(etc, "ha-etcd.toml"))
	return &vm{name, hpad, api.NewClient(filepath.Join(root, "run/hpad/hpad.sock"))}
}

func (e *example) adapted(file, root string, n int, hash string) string {
	text, err := os.ReadFile(configs + file)
	if err != nil {
		e.t.Fatal(err)
	}
	var adapted strings.Builder
	replace := strings.NewReplacer("/etc/hpad/nomad-token", filepath.Join(e.dir, "nomad-token"), "/etc/hpad", root+"/etc/hpad", "/run/hpad", root+"/run/hpad", "/var/lib", root+"/var/lib",
		"http://10.0.1.1:4646", e.nomad, "http://10.0.1.2:9090", e.prometheus, "10.0.0.", e.network)
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(strings.TrimSpace(line), "# this VM") {
			line = strings.NewReplacer("vm1", fmt.Sprint("vm", n), "10.0.0.1", fmt.Sprint("10.0.0.", n)).Replace(line)
		}
		if before, _, is := strings.Cut(line, "$2a$"); is {
			line = before + hash + "\n"
		}
		adapted.WriteString(replace.Replace(line))
	}
	return adapted.String()
}

func (e *example) run(name, binary string, args ...string) *child.Process {
	e.t.Helper()
	log, err := os.Create(filepath.Join(e.dir, name+"-"+filepath.Base(binary)+".log"))
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(binary, args...)
	command.Stdout, command.Stderr = log, log
	process, err := child.Start(command)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		process.Kill()
		if said, _ := os.ReadFile(log.Name()); e.t.Failed() {
			e.t.Logf("end of %s:\n%s", filepath.Base(log.Name()), said[max(0, len(said)-4000):])
		}
	})
	return process
}
