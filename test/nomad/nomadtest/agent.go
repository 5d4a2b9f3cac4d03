// Package nomadtest runs real Nomad agents for tests. An agent is server and client in one
// process, listens on loopback ports and stores its state on disk.
package nomadtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/wait"
)

const (
	startTimeout   = 2 * time.Minute
	stopTimeout    = time.Minute
	requestTimeout = time.Minute
)

// directoryVariable is an environment variable that identifies an agent's processes.
const directoryVariable = "HPAD_NOMADTEST_DIRECTORY"

// Options configures an agent.
type Options struct {
	// ACL enables access control. The agent's Client then uses a management token.
	ACL bool
	// TLS, if not nil, is the certificate that the agent uses for HTTP and that clients present.
	TLS *Certificate
	// Meta is the metadata of the agent's node.
	Meta map[string]string
	// Disk is the size in MiB of a file system for the agent's state, which Fill fills; 0 means no
	// separate file system. Mounting requires privileges; without them, the test is skipped.
	Disk int
	// Extra is additional HCL configuration.
	Extra string

	// servers is the number of servers in a cluster in which the agent is only a server. 0 means
	// that the agent is both server and client.
	servers int
	// join lists the Serf addresses of the servers.
	join []string
	// clientOf lists the RPC addresses of the servers if the agent is only a client.
	clientOf []string
}

// Agent is a Nomad agent that runs until its test ends. Its methods must be called from the test's
// goroutine. Client may be used from any goroutine.
type Agent struct {
	// URL is the address of the HTTP API. RPC and Serf are the addresses for connections between
	// servers. Restart does not change them.
	URL, RPC, Serf string
	// Client is connected to the agent. It uses the management token if there is one.
	Client *api.Client
	// Token is the management token, or empty without ACL.
	Token string
	// Name identifies the agent and its node.
	Name string

	t       testing.TB
	options Options
	ports   []int
	binary  string
	dir     string
	process *child.Process
}

// Start runs an agent and waits until its node is ready. If the program is missing, the test is
// skipped, or fails if CI=true.
func Start(t testing.TB, options Options) *Agent {
	t.Helper()
	a := prepare(t, options)
	a.start()
	a.awaitLeader()
	if options.ACL {
		a.bootstrap()
	}
	a.awaitNode()
	return a
}

// prepare creates an agent with its files, without starting it.
func prepare(t testing.TB, options Options) *Agent {
	t.Helper()
	a := &Agent{t: t, options: options, binary: installed.Path(t, filepath.Join("nomad-v*", "nomad"), "test/install/nomad.sh"), dir: t.TempDir()}
	a.ports = []int{ports.Port(t), ports.Port(t), ports.Port(t)}
	a.URL = fmt.Sprintf("http://127.0.0.1:%d", a.ports[0])
	a.RPC, a.Serf = fmt.Sprintf("127.0.0.1:%d", a.ports[1]), fmt.Sprintf("127.0.0.1:%d", a.ports[2])
	a.Name = nameOf(a.ports)
	if options.TLS != nil {
		a.URL = fmt.Sprintf("https://127.0.0.1:%d", a.ports[0])
	}
	a.configure()
	a.connect()
	t.Cleanup(a.end)
	if options.Disk > 0 {
		installed.Mount(t, a.path("data"), fmt.Sprintf("size=%dm,mode=0700", options.Disk))
	}
	return a
}

// Fill fills the agent's disk. Empty reverts it.
func (a *Agent) Fill() {
	a.t.Helper()
	ballast := make([]byte, a.options.Disk<<20)
	if err := os.WriteFile(a.path("data/ballast"), ballast, 0o600); !errors.Is(err, unix.ENOSPC) {
		a.t.Fatalf("fill the disk of %s: got %v, want ENOSPC", a.Name, err)
	}
}

// Empty frees the disk space that Fill uses.
func (a *Agent) Empty() {
	a.t.Helper()
	if err := os.Remove(a.path("data/ballast")); err != nil {
		a.t.Fatal(err)
	}
}

// configure writes the agent's configuration file.
func (a *Agent) configure() {
	a.t.Helper()
	if err := os.WriteFile(a.path("agent.hcl"), []byte(configuration(a.options, a.path("data"), a.ports)), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// connect creates the Client with the current certificates.
func (a *Agent) connect() {
	a.t.Helper()
	// Idle connections would look like leaks in the tested code.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}
	if c := a.options.TLS; c != nil {
		if err := api.ConfigureTLS(client, &api.TLSConfig{CACert: c.CAFile, ClientCert: c.CertFile, ClientKey: c.KeyFile}); err != nil {
			a.t.Fatal(err)
		}
	}
	var err error
	if a.Client, err = api.NewClient(&api.Config{Address: a.URL, HttpClient: client, SecretID: a.Token}); err != nil {
		a.t.Fatal(err)
	}
}

// In returns the same agent with a Client for a different namespace. Call Kill and Restart only on
// the original agent.
func (a *Agent) In(t testing.TB, namespace string) *Agent {
	t.Helper()
	other := *a
	other.connect()
	other.Client.SetNamespace(namespace)
	return &other
}

// configuration returns the agent's configuration, which disables all cloud fingerprinters.
func configuration(options Options, data string, ports []int) string {
	servers, encryption := max(1, options.servers), ""
	clientOf := options.clientOf
	if len(clientOf) == 0 {
		clientOf = []string{fmt.Sprintf("127.0.0.1:%d", ports[1])}
	}
	if c := options.TLS; c != nil {
		encryption = fmt.Sprintf(`
tls {
  http                = true
  verify_https_client = true
  ca_file             = %q
  cert_file           = %q
  key_file            = %q
}`, c.CAFile, c.CertFile, c.KeyFile)
	}
	return fmt.Sprintf(`
name      = %q
region    = "global"
data_dir  = %q
bind_addr = "127.0.0.1"
log_level = "INFO"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  enabled          = %t
  bootstrap_expect = %d
  raft_multiplier  = 1
  server_join {
    retry_join     = %s
    retry_interval = "1s"
  }
}
autopilot {
  cleanup_dead_servers = false # a killed server returns
}
client {
  enabled           = %t
  network_interface = "lo"
  servers           = %s
  memory_total_mb   = 200000
  max_kill_timeout  = "5m"
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
  }
  meta = {
    %s
  }
}
telemetry {
  publish_allocation_metrics = true
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
acl {
  enabled = %t
}
%s
%s
`, nameOf(ports), data, ports[0], ports[1], ports[2],
		len(options.clientOf) == 0, servers, listOf(options.join), options.servers == 0, listOf(clientOf), pairsOf(options.Meta), options.ACL, encryption, options.Extra)
}

// nameOf returns the name of the agent that uses the given ports.
func nameOf(ports []int) string { return fmt.Sprintf("agent-%d", ports[0]) }

// listOf formats a list of strings in HCL.
func listOf(texts []string) string {
	quoted := make([]string, len(texts))
	for n, text := range texts {
		quoted[n] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// pairsOf formats a map in HCL.
func pairsOf(texts map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		pairs = append(pairs, fmt.Sprintf("%q = %q", key, texts[key]))
	}
	return strings.Join(pairs, "\n    ")
}

func (a *Agent) path(name string) string { return filepath.Join(a.dir, name) }

func (a *Agent) start() {
	a.t.Helper()
	log, err := os.OpenFile(a.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(a.binary, "agent", "-config", a.path("agent.hcl"))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Env = append(environment(), directoryVariable+"="+a.dir)
	if a.process, err = child.Start(command); err != nil {
		a.t.Fatalf("start nomad: %v", err)
	}
}

// environment returns the environment for the nomad command, without variables that would
// configure it.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "AWS_CA_BUNDLE=") || strings.HasPrefix(variable, "NOMAD_")
	})
}

// awaitLeader waits until there is a leader.
func (a *Agent) awaitLeader() {
	a.t.Helper()
	a.eventually(startTimeout, "leader", func() (string, bool) {
		if a.process.Ended() {
			a.t.Fatalf("nomad exited: %s\n%s", a.process.Command.ProcessState, a.log())
		}
		leader, err := a.Client.Status().Leader()
		return fmt.Sprintf("%q, %v", leader, err), err == nil && leader != ""
	})
}

// bootstrap creates the management token.
func (a *Agent) bootstrap() {
	a.t.Helper()
	a.eventually(startTimeout, "management token", func() (string, bool) {
		token, _, err := a.Client.ACLTokens().Bootstrap(nil)
		if err != nil {
			return err.Error(), false
		}
		a.Token = token.SecretID
		return "", true
	})
	a.Client.SetSecretID(a.Token)
}

// awaitNode waits until the agent's node is ready.
func (a *Agent) awaitNode() {
	a.t.Helper()
	a.eventually(startTimeout, "ready node", func() (string, bool) {
		node, err := a.node(a.Name)
		if node == nil {
			return fmt.Sprintf("no node, %v", err), false
		}
		healthy := func(driver string) bool { return node.Drivers[driver] != nil && node.Drivers[driver].Healthy }
		return fmt.Sprintf("the status is %s", node.Status), node.Status == api.NodeStatusReady && healthy("raw_exec") && healthy("mock_driver")
	})
}

// NodeOf returns the node with the given name, or nil.
func (a *Agent) NodeOf(t testing.TB, name string) *api.Node {
	t.Helper()
	var node *api.Node
	a.request(t, "read node "+name, func() (err error) {
		node, err = a.node(name)
		return err
	})
	return node
}

func (a *Agent) node(name string) (*api.Node, error) {
	nodes, _, err := a.Client.Nodes().List(nil)
	for _, stub := range nodes {
		if stub.Name == name {
			node, _, err := a.Client.Nodes().Info(stub.ID, nil)
			var response api.UnexpectedResponseError
			if errors.As(err, &response) && response.StatusCode() == http.StatusNotFound { // purged after it was listed
				return nil, nil
			}
			return node, err
		}
	}
	return nil, err
}

// Kill kills the agent. Its tasks continue to run.
func (a *Agent) Kill() {
	a.t.Helper()
	a.process.Kill()
	a.process = nil
}

// Restart starts a killed agent with its state and the current certificates. It waits until there
// is a leader and the agent's node is ready.
func (a *Agent) Restart() {
	a.t.Helper()
	a.connect()
	a.start()
	a.awaitLeader()
	if a.options.servers == 0 {
		a.awaitNode()
	}
}

// Freeze stops the agent's process until Thaw is called. A frozen agent accepts connections but
// does not respond.
func (a *Agent) Freeze() {
	a.t.Helper()
	_ = a.process.Command.Process.Signal(syscall.SIGSTOP)
	// The threads stop one after the other, and the agent can respond until the last one has
	// stopped.
	a.eventually(stopTimeout, "stop", func() (string, bool) {
		paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", a.process.Command.Process.Pid))
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if _, state, _ := bytes.Cut(text, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
				return fmt.Sprintf("%s contains %s", path, text), false
			}
		}
		return fmt.Sprintf("%d threads, %v", len(paths), err), len(paths) > 0
	})
}

// Thaw resumes a frozen agent.
func (a *Agent) Thaw() { _ = a.process.Command.Process.Signal(syscall.SIGCONT) }

// end stops all jobs, so that no task outlives the test, and then the agent.
func (a *Agent) end() {
	if a.process != nil && !a.process.Ended() {
		a.Thaw()
		if a.options.servers == 0 {
			a.purge()
		}
		if err := a.process.Stop(syscall.SIGINT, stopTimeout); err != nil {
			a.t.Errorf("stop nomad: %v", err)
		}
	}
	a.killLeftovers()
	a.unmount()
	a.removeGroups()
	if a.t.Failed() {
		a.t.Logf("nomad log:\n%s", a.log())
	}
}

// purge purges all jobs and waits until no allocation is running.
func (a *Agent) purge() {
	jobs, _, err := a.Client.Jobs().List(&api.QueryOptions{Namespace: "*"})
	if err != nil {
		a.t.Errorf("list the jobs to stop: %v", err)
		return
	}
	for _, job := range jobs {
		if _, _, err := a.Client.Jobs().Deregister(job.ID, true, &api.WriteOptions{Namespace: job.Namespace}); err != nil {
			a.t.Errorf("stop job %q: %v", job.ID, err)
		}
	}
	seen, ok := wait.Until(stopTimeout, func() (string, bool) {
		allocs, _, err := a.Client.Allocations().List(&api.QueryOptions{
			Namespace: "*", Filter: `ClientStatus == "running" or ClientStatus == "pending"`,
		})
		return fmt.Sprintf("%d running allocations, %v", len(allocs), err), err == nil && len(allocs) == 0
	})
	if !ok {
		a.t.Errorf("jobs not stopped within %v: %s", stopTimeout, seen)
	}
	_ = a.Client.System().GarbageCollect()
}

// killLeftovers kills tasks and loggers, which outlive a Nomad agent by design. It finds them by
// the agent's directory in their environment.
func (a *Agent) killLeftovers() {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		a.t.Errorf("find leftovers of nomad: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("="+a.dir)) {
			continue // the process has exited or does not belong to this agent
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unmount detaches the mounts below the agent's directory, which would prevent its removal.
func (a *Agent) unmount() {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], a.dir+"/") {
			_ = unix.Unmount(fields[1], unix.MNT_DETACH)
		}
	}
}

// allocation matches the ID of an allocation in the agent's log.
var allocation = regexp.MustCompile(`alloc_id=([0-9a-f-]{36})`)

// removeGroups removes the control groups of allocations, which Nomad leaves behind with cgroups
// v1. It finds the allocation IDs in the log because the API does not return purged allocations.
func (a *Agent) removeGroups() {
	log, err := os.ReadFile(a.path("log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // does not exist if the agent never started
		a.t.Errorf("find leftovers of nomad: %v", err)
	}
	own := map[string]bool{}
	for _, match := range allocation.FindAllSubmatch(log, -1) {
		own[string(match[1])] = true
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/nomad/*.*")
	if err != nil {
		a.t.Errorf("find leftovers of nomad: %v", err)
	}
	for _, group := range groups {
		if id, _, _ := strings.Cut(filepath.Base(group), "."); own[id] {
			// Killed processes take a moment to exit.
			wait.Until(stopTimeout, func() (string, bool) { return "", !errors.Is(os.Remove(group), unix.EBUSY) })
		}
	}
}

// log returns the end of the agent's log.
func (a *Agent) log() []byte {
	const most = 8 << 10
	text, err := os.ReadFile(a.path("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-most):])
}

func (a *Agent) eventually(limit time.Duration, what string, condition func() (seen string, ok bool)) {
	a.t.Helper()
	if seen, ok := wait.Until(limit, condition); !ok {
		a.t.Fatalf("no %s of nomad within %v; last state: %s\n%s", what, limit, seen, a.log())
	}
}
