package dockertest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/wait"
)

// Hosts in the ssh client's configuration. All except NoServer connect to the server.
const (
	// Known is a host with a valid key.
	Known = "known.example"
	// WrongKey uses a key that the server rejects.
	WrongKey = "wrong-key.example"
	// The client does not know a host key of Unknown, and knows a wrong host key of Changed.
	Unknown = "unknown.example"
	Changed = "changed.example"
	// NoServer refers to a closed port.
	NoServer = "no-server.example"
)

// Users of the server.
const (
	// Operator can use the docker CLI and has DOCKER_HOST set.
	Operator = "operator"
	// Stranger cannot use the docker CLI.
	Stranger = "stranger"
)

// SSH runs a server on the loopback interface with its own users and keys, and has a client
// configuration for it. Its methods must be called from the test's goroutine.
type SSH struct {
	t        testing.TB
	engine   *Engine
	programs string
	dir      string
	port     int
	process  *child.Process
}

// ServeSSH starts an ssh server for the engine, independent of the host's ssh configuration. If
// the programs are missing, the test is skipped, or fails if CI=true.
func (e *Engine) ServeSSH(t testing.TB) *SSH {
	t.Helper()
	s := &SSH{t: t, engine: e, programs: installed.Path(t, "ssh", "test/install/ssh.sh"), dir: e.path("ssh")}
	for _, dir := range []string{s.dir, s.path("bin")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	host, own, other := s.makeKey("host"), s.makeKey("own"), s.makeKey("other")
	s.write("authorized_keys", 0o600, own)
	s.write("users", 0o644, fmt.Sprintf("root:*:0:0::/:/bin/sh\nsshd:*:74:65534::/:/bin/false\n%s:*:0:0::%s:/bin/sh\n%s:*:0:0::%s:/bin/sh\n",
		Operator, s.dir, Stranger, s.dir))
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("sshd log:\n%s", s.Log())
		}
	})
	s.port = ports.Port(t)
	s.configure()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	s.write("known_hosts", 0o600, Known+" "+host+WrongKey+" "+host+Changed+" "+other)
	s.configureClient()
	return s
}

func (s *SSH) path(name string) string { return filepath.Join(s.dir, name) }

func (s *SSH) write(name string, mode os.FileMode, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

// makeKey writes a private key and returns its public key.
func (s *SSH) makeKey(name string) string {
	s.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(name, 0o600, string(pem.EncodeToMemory(block)))
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

// configure writes the server's configuration, which includes the environment of the sessions.
func (s *SSH) configure() {
	s.t.Helper()
	text := fmt.Sprintf(`
ListenAddress 127.0.0.1
Port %d
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
KexAlgorithms curve25519-sha256
`, s.port, s.path("host"), s.path("authorized_keys"))
	// Newer versions of sshd run separate programs for their connections.
	if libexec := filepath.Join(s.programs, "libexec"); exists(filepath.Join(libexec, "sshd-session")) {
		text += fmt.Sprintf("SshdSessionPath %s/sshd-session\nSshdAuthPath %s/sshd-auth\n", libexec, libexec)
	}
	text += fmt.Sprintf("Match User %s\nSetEnv PATH=%s:/usr/bin:/bin DOCKER_HOST=%s DOCKER_CONFIG=%s\nMatch User %s\nSetEnv PATH=%s\n",
		Operator, filepath.Join(s.engine.programs, "bin"), s.engine.Host(), s.engine.path("config"), Stranger, s.path("nowhere"))
	s.write("sshd_config", 0o600, text)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// configureClient writes a client configuration, and an ssh command that reads only this
// configuration.
func (s *SSH) configureClient() {
	s.t.Helper()
	var text strings.Builder
	for _, host := range []struct {
		name, key, known string
		port             int
	}{
		{Known, "own", "known_hosts", s.port},
		{WrongKey, "other", "known_hosts", s.port},
		{Unknown, "own", "no_hosts", s.port},
		{Changed, "own", "known_hosts", s.port},
		{NoServer, "own", "known_hosts", 1},
	} {
		fmt.Fprintf(&text, "Host %s\nHostKeyAlias %s\nPort %d\nIdentityFile %s\nUserKnownHostsFile %s\n",
			host.name, host.name, host.port, s.path(host.key), s.path(host.known))
	}
	text.WriteString("Host *\nHostName 127.0.0.1\nIdentitiesOnly yes\nIdentityAgent none\nGlobalKnownHostsFile /dev/null\n")
	s.write("ssh_config", 0o600, text.String())
	s.write("bin/ssh", 0o700, fmt.Sprintf("#!/bin/sh\nLD_LIBRARY_PATH=%[1]s/lib exec %[1]s/bin/ssh -F %[2]s \"$@\"\n", s.programs, s.path("ssh_config")))
}

// Path returns a PATH in which the command written by configureClient precedes the host's ssh.
func (s *SSH) Path() string { return s.path("bin") + ":" + os.Getenv("PATH") }

// serverScript runs in the server's namespaces. It replaces /proc, /etc/passwd and /run.
const serverScript = `
mount --make-rslave /
mount -t proc proc /proc
mount --bind "$1" /etc/passwd
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -m 0755 /run/sshd
shift
exec "$@"
`

// run runs the server and waits until it listens.
func (s *SSH) run() error {
	s.t.Helper()
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command := exec.Command("/bin/sh", "-euc", serverScript, "serverScript", s.path("users"),
		filepath.Join(s.programs, "bin", "sshd"), "-D", "-e", "-f", s.path("sshd_config"))
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(s.programs, "lib"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if s.process, err = child.Start(command); err != nil {
		return fmt.Errorf("start sshd: %w", err)
	}
	seen, ok := wait.Until(startTimeout, func() (string, bool) {
		if s.process.Ended() {
			return "sshd exited", true
		}
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			return err.Error(), false
		}
		_ = connection.Close()
		return "sshd is listening", true
	})
	if !ok || s.process.Ended() {
		return fmt.Errorf("start sshd: %s\n%s", seen, s.Log())
	}
	return nil
}

// Log returns the server's log.
func (s *SSH) Log() string {
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Kill kills the server and all its sessions.
func (s *SSH) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// StartAgain restarts a killed server on the same port.
func (s *SSH) StartAgain() {
	s.t.Helper()
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
}

// Clients returns the command line of every process that runs the ssh command in Path.
func (s *SSH) Clients() []string {
	s.t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		text, err := os.ReadFile(path) // fails if the process has exited
		if err == nil && (strings.Contains(string(text), s.path("ssh_config")) || strings.Contains(string(text), s.path("bin/ssh"))) {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}
