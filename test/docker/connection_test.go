package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// brokenFleet is a fleet that cannot reach its engine, with an autoscaler of the same name.
type brokenFleet struct {
	name string
	keys string
	// words are parts of the fleet's error, which ends with advice.
	words []string
}

// connected returns the configuration of a fleet, and of an autoscaler for a service.
func connected(name, keys, project, service string) string {
	return fmt.Sprintf("[fleets.%s]\nkind = \"compose\"\ntimeout = \"20s\"\n%s\n", name, keys) +
		world.Queued(name, fmt.Sprintf(`{ fleet = %q, project = %q, service = %q }`, name, project, service), 1, 5)
}

// configuration returns a source, and fleets that cannot reach the engine. Their autoscalers need
// different targets because the engine is the same.
func (s *site) configuration(project string, broken []brokenFleet) string {
	var text strings.Builder
	text.WriteString(s.load.Source())
	for _, m := range broken {
		text.WriteString(connected(m.name, m.keys, project, m.name))
	}
	return text.String()
}

// awaitErrors waits until the conditions and "hpad check --live" contain the errors of all fleets.
func awaitErrors(t *testing.T, h *program.Program, broken []brokenFleet) {
	t.Helper()
	for _, m := range broken {
		for _, words := range m.words {
			h.Await(m.name, policy.AbleToScale, "FailedGetScale", words)
		}
	}
	// If the engine closes the connection, a write may fail before the client has received the
	// cause.
	wait.For(t, patience, "errors of all fleets in the check", func() (string, bool) {
		output, code := h.Check()
		complete := code == 3
		for line := range strings.Lines(output) {
			for _, m := range broken {
				if strings.Contains(line, "fleets."+m.name+":") {
					for _, words := range m.words {
						complete = complete && strings.Contains(line, words)
					}
				}
			}
		}
		for _, m := range broken {
			complete = complete && strings.Contains(output, "fleets."+m.name+":")
		}
		return fmt.Sprintf("exit status %d:\n%s", code, output), complete
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTLS checks that hpad connects with certificates from the configuration or the environment,
// and uses replaced certificate files. The errors of other fleets must contain advice and must not
// affect the valid fleet.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, version := range both {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			secured(t, version)
		})
	}
}

func secured(t *testing.T, version dockertest.Version) {
	own, foreign := t.TempDir(), t.TempDir()
	authority, other := webtest.NewCA(t, own, "ca"), webtest.NewCA(t, foreign, "ca")
	serverCert, serverKey := authority.Issue(t, "engine")
	cert, key := authority.Issue(t, "hpad")
	otherCert, otherKey := other.Issue(t, "hpad")
	oldCert, oldKey := authority.IssueExpired(t, "old")
	// The valid fleet uses a copy, which is replaced below.
	ca := filepath.Join(own, "used.crt")
	copyFile(t, authority.File, ca)

	s := newSite(t, dockertest.Options{Version: version, Args: []string{
		"--host", "tcp://127.0.0.1:2376", "--tlsverify", "--tlscacert", authority.File, "--tlscert", serverCert, "--tlskey", serverKey,
	}})
	p := s.Project(t, "sealed", `
services:
  web: { image: worker:1, init: true, stop_grace_period: 1s }
  old: { image: worker:1, init: true, stop_grace_period: 1s }
`)
	p.Compose("up", "--detach")
	host := fmt.Sprintf("tcp://%s", s.Relay(t, "127.0.0.1:2376"))
	with := func(ca, cert, key string) string {
		return fmt.Sprintf("host = %q\ntls = { ca_file = %q, cert_file = %q, key_file = %q }", host, ca, cert, key)
	}
	prefix := "docker at " + host
	broken := []brokenFleet{
		{"wrong-ca", with(other.File, cert, key), []string{prefix, "certificate signed by unknown authority", fmt.Sprintf("tls.ca_file %q is not the CA of the engine's certificate", other.File)}},
		{"foreign", with(authority.File, otherCert, otherKey), []string{prefix, "remote error: tls: ", fmt.Sprintf("the engine rejects the certificate in tls.cert_file %q: it must be issued by a CA that the engine trusts", otherCert)}},
		{"old", with(authority.File, oldCert, oldKey), []string{prefix, "remote error: tls: ", fmt.Sprintf("the certificate in tls.cert_file %q expired at ", oldCert), "renew it"}},
		{"anonymous", fmt.Sprintf("host = %q\ntls = { ca_file = %q }", host, authority.File), []string{prefix, "remote error: tls: ", "set tls.cert_file and tls.key_file"}},
		{"misnamed", fmt.Sprintf("host = %q\ntls = { ca_file = %q, cert_file = %q, key_file = %q, server_name = \"other.example\" }", host, authority.File, cert, key), []string{prefix, "other.example", "set tls.server_name to a name in the engine's certificate"}},
		{"plain", fmt.Sprintf("host = %q", host), []string{prefix, "HTTP request to an HTTPS server", "add a tls table"}},
	}
	s.load.Queue("right", 30)
	s.load.Queue("old", 20)
	text := s.configuration("sealed", broken)
	h := program.New(t, text+connected("right", with(ca, cert, key), "sealed", "web"))
	s.awaitReplicas(t, "sealed", 3)
	awaitErrors(t, h, broken)

	// Renew the expired certificate.
	copyFile(t, cert, oldCert)
	copyFile(t, key, oldKey)
	wait.For(t, patience, "replicas with the renewed certificate", func() (string, bool) {
		found := s.replicas(t, "sealed", "old")
		return describe(found), len(found) == 2
	})

	// Replace the valid fleet's CA certificate, and restore it.
	copyFile(t, other.File, ca)
	h.Await("right", policy.AbleToScale, "FailedGetScale", fmt.Sprintf("tls.ca_file %q is not the CA", ca))
	s.load.Queue("right", 10)
	s.load.AwaitQueue(t, "right")
	h.Passes("right", 4) // more than the window of 2s
	if found := s.replicas(t, "sealed", "web"); len(found) != 3 {
		t.Errorf("with another CA: %s, want 3 replicas as before", describe(found))
	}
	copyFile(t, authority.File, ca)
	s.awaitReplicas(t, "sealed", 1)
	h.Stop()

	// Set only the environment variables of the Docker CLI.
	certs := t.TempDir()
	for name, file := range map[string]string{"ca.pem": authority.File, "cert.pem": cert, "key.pem": key} {
		copyFile(t, file, filepath.Join(certs, name))
	}
	s.load.Queue("variables", 20)
	h = program.New(t, s.load.Source()+connected("variables", "", "sealed", "web"),
		"DOCKER_HOST="+host, "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH="+certs)
	s.awaitReplicas(t, "sealed", 2)
	if output, code := h.Check(); code != 0 || !strings.Contains(output, "fleets.variables: connected to Docker ") {
		t.Errorf("hpad check --live exited with %d:\n%s", code, output)
	}
}

// TestSSH checks that hpad connects over ssh, including after the server was down, and leaves no
// ssh process behind. The errors of other fleets must contain advice and must not affect the valid
// fleet.
func TestSSH(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{})
	server := s.ServeSSH(t)
	p := s.Project(t, "remote", "services: { web: { image: worker:1, init: true, stop_grace_period: 1s } }")
	p.Compose("up", "--detach")
	to := func(user, host string) string { return "ssh://" + user + "@" + host }
	at := func(host string) string { return fmt.Sprintf("host = %q", host) }
	failed := func(name, host string, words ...string) brokenFleet {
		return brokenFleet{name, at(host), append([]string{"docker at " + host + ": "}, words...)}
	}
	broken := []brokenFleet{
		failed("wrong-key", to(dockertest.Operator, dockertest.WrongKey), "ssh failed: ", "Permission denied (publickey)",
			`"ssh `+dockertest.Operator+"@"+dockertest.WrongKey+` docker version" must work for hpad's user without a prompt`),
		failed("unknown", to(dockertest.Operator, dockertest.Unknown), "ssh failed: ", "Host key verification failed",
			`"ssh `+dockertest.Operator+"@"+dockertest.Unknown+` docker version" must work for hpad's user without a prompt`),
		failed("changed", to(dockertest.Operator, dockertest.Changed), "ssh failed: ", "Host key for "+dockertest.Changed+" has changed",
			`"ssh `+dockertest.Operator+"@"+dockertest.Changed+` docker version" must work for hpad's user without a prompt`),
		failed("no-server", to(dockertest.Operator, dockertest.NoServer), "ssh failed: ", "Connection refused"),
		failed("no-docker", to(dockertest.Stranger, dockertest.Known), "docker was not found on the remote host: ", "install Docker's command line there"),
		failed("no-engine", to(dockertest.Operator, dockertest.Known)+"/no/such.sock", `"docker system dial-stdio" failed on the remote host: `, "dial unix /no/such.sock: connect: no such file or directory"),
	}
	s.load.Queue("right", 30)
	h := program.New(t, s.configuration("remote", broken)+connected("right", at(to(dockertest.Operator, dockertest.Known)), "remote", "web"), "PATH="+server.Path())
	s.awaitReplicas(t, "remote", 3)
	awaitErrors(t, h, broken)

	server.Kill()
	h.Await("right", policy.AbleToScale, "FailedGetScale", "Connection refused")
	s.load.Queue("right", 10)
	s.load.AwaitQueue(t, "right")
	h.Passes("right", 4) // more than the window of 2s
	if found := s.replicas(t, "remote", "web"); len(found) != 3 {
		t.Errorf("without an ssh server: %s, want 3 replicas as before", describe(found))
	}
	server.StartAgain()
	s.awaitReplicas(t, "remote", 1)

	endsClients := func(end func()) {
		t.Helper()
		wait.For(t, patience, "ssh of hpad", func() (string, bool) {
			found := server.Clients()
			return fmt.Sprintf("%q", found), len(found) > 0
		})
		end()
		wait.For(t, patience, "exit of all ssh processes", func() (string, bool) {
			left := server.Clients()
			return fmt.Sprintf("%q", left), len(left) == 0
		})
	}
	endsClients(h.Stop)
	h.Start()
	endsClients(h.Kill)
}
