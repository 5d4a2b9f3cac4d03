package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/settings/webtest"
)

// running is a daemon that a test started with the code of "hpad run".
type running struct {
	t *testing.T
	// dir contains all files of the daemon. Its path is short enough for a socket.
	dir, socket, address string
	// config is the daemon's configuration as TOML.
	config string
	log    *transcript
}

// openDir creates a directory that every user can access.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hpad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func runConfig(t *testing.T, dir, text string) *running {
	t.Helper()
	r := &running{t: t, dir: dir, socket: filepath.Join(dir, "run", "hpad.sock"), address: freeAddress(t), log: new(transcript)}
	r.config = fmt.Sprintf("[daemon]\nlisten = %q\nsocket = %q\nstate_dir = %q\n%s", r.address, r.socket, filepath.Join(dir, "state"), text)
	file := webtest.Write(t, dir, "hpad.toml", r.config)
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	log := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(redact.Writer(r.log)), zapcore.DebugLevel))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runDaemon(ctx, runOptions{file: file, log: log}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("runDaemon: %v", err)
		}
	})
	for end := time.Now().Add(time.Minute); ; {
		status, err := statusOf("unix", r.socket, "/-/ready")
		if status == http.StatusOK { // check TCP only when the socket works, because TCP requests are rate-limited
			if _, err = statusOf("tcp", r.address, "/-/healthy"); err == nil {
				return r
			}
		}
		select {
		case err := <-done:
			done <- nil
			t.Fatalf("runDaemon: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("the daemon is not ready after a minute: status %d, %v", status, err)
		}
	}
}

// statusOf requests a path without TLS and returns the status. A successful connection does not
// prove that the server has read its web config, but a response does. A server with TLS responds
// that the request is not HTTPS.
func statusOf(network, address, path string) (int, error) {
	conn, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", path); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// hpad runs a command line.
func (r *running) hpad(args ...string) (code int, out, errs string) {
	r.t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(r.t.Context(), args, streams{in: strings.NewReader(""), out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

func (r *running) expect(code int, want string, args ...string) {
	r.t.Helper()
	got, out, errs := r.hpad(args...)
	if got != code || !strings.Contains(out+errs, want) {
		r.t.Errorf("hpad %s: exit code %d, output\n%s%swant %d and %q", strings.Join(args, " "), got, out, errs, code, want)
	}
}

func (r *running) request(method, path string, changes ...func(*http.Request)) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.address+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, change := range changes {
		change(request)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// expectResponse makes a request such as "GET /-/ready". It checks the status of the response, and
// that the body contains words.
func (r *running) expectResponse(status int, words, what string, changes ...func(*http.Request)) {
	r.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	if got, body := r.request(method, path, changes...); got != status || !strings.Contains(body, words) {
		r.t.Errorf("%s returned %d %s, want %d and %q", what, got, body, status, words)
	}
}

// signed authenticates a request as alice.
func signed(r *http.Request) { r.SetBasicAuth("alice", "wonder") }

// as sets the Host header of a request.
func as(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }

const reloaded = "The configuration was reloaded."

// TestPlainTCPIsReadOnly checks that TCP is read-only without a web config.
func TestPlainTCPIsReadOnly(t *testing.T) {
	r := runConfig(t, openDir(t), "")
	server := "http://" + r.address
	r.expect(exitFine, "No autoscalers are configured.", "get", "--server", server)
	r.expect(exitFailure, "/-/reload is a write, which this listener does not accept: use the unix socket", "reload", "--server", server)
	r.expect(exitFailure, "write http:// instead of https://", "get", "--server", "https://"+r.address)
	r.expect(exitFine, reloaded, "reload", "--socket", r.socket)
	r.expectResponse(200, "[daemon]", "GET /api/v1/status/config")
	r.expectResponse(403, "is a write", "POST /-/reload")
	r.expectResponse(403, "is a profile", "GET /debug/pprof/heap")
	r.expectResponse(403, "cross-origin", "POST /-/reload", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
	r.expectResponse(403, "is not an accepted host name", "GET /api/v1/status/config", as("evil.example"))
	r.expectResponse(200, "ready", "GET /-/ready", as("localhost:4720"))
	for range 20 {
		r.expectResponse(200, "", "GET /-/ready", signed)
	}
}

// TestProtectedTCP checks that only authenticated clients can use TCP if there is a web config.
func TestProtectedTCP(t *testing.T) {
	const cert = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
	const clients = cert + "  client_ca_file: authority.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
	users := "basic_auth_users:\n  alice: " + webtest.Hash(t, "wonder") + "\n"
	begin := func(t *testing.T, config string) (*running, *webtest.CA, string) {
		dir := openDir(t)
		authority := webtest.NewCA(t, dir, "authority")
		authority.Issue(t, "server")
		path := webtest.Write(t, dir, "web.yml", config)
		webtest.Write(t, dir, "right", "wonder\n")
		webtest.Write(t, dir, "wrong", "land\n")
		r := runConfig(t, dir, fmt.Sprintf("web_config = %q\n", path))
		r.expect(exitFine, reloaded, "reload", "--socket", r.socket)
		return r, authority, "https://" + r.address
	}
	t.Run("TLS alone is read-only", func(t *testing.T) {
		r, authority, server := begin(t, cert)
		r.expect(exitFine, "No autoscalers", "get", "--server", server, "--ca-file", authority.File)
		r.expect(exitFailure, "does not authenticate clients", "reload", "--server", server, "--ca-file", authority.File)
		r.expect(exitFailure, "set --ca-file to its CA certificate", "get", "--server", server)
		r.expect(exitFailure, "write https:// instead of http://", "get", "--server", "http://"+r.address)
		r.expect(exitFailure, "use a name from its certificate: server, 127.0.0.1", "get", "--ca-file", authority.File,
			"--server", strings.Replace(server, "127.0.0.1", "localhost", 1))
	})
	t.Run("client certificate", func(t *testing.T) {
		r, authority, server := begin(t, clients)
		certFile, keyFile := authority.Issue(t, "alice")
		strangerFile, strangerKey := webtest.NewCA(t, t.TempDir(), "strangers").Issue(t, "mallory")
		common := []string{"reload", "--server", server, "--ca-file", authority.File}
		r.expect(exitFine, reloaded, append(common, "--cert-file", certFile, "--key-file", keyFile)...)
		r.expect(exitFailure, "set --cert-file and --key-file", common...)
		r.expect(exitFailure, "client_ca_file of the server's web config", append(common, "--cert-file", strangerFile, "--key-file", strangerKey)...)
		r.expect(exitFailure, "set both --cert-file and --key-file", append(common, "--cert-file", certFile)...)
		r.expect(exitFailure, "no such file", append(common, "--cert-file", certFile, "--key-file", "/nonexistent/key")...)
	})
	t.Run("users", func(t *testing.T) {
		r, authority, server := begin(t, cert+users)
		right, wrong := filepath.Join(r.dir, "right"), filepath.Join(r.dir, "wrong")
		common := []string{"reload", "--server", server, "--ca-file", authority.File}
		r.expect(exitFine, reloaded, append(common, "--username", "alice", "--password-file", right)...)
		r.expect(exitFailure, "set --username and --password-file", append(common, "--username", "alice", "--password-file", wrong)...)
		r.expect(exitFailure, `rejected the user name "bob" or the password`, append(common, "--username", "bob", "--password-file", right)...)
		r.expect(exitFailure, "requires a user name and a password", common...)
		r.expect(exitFailure, "requires a user name and a password", "get", "--server", server, "--ca-file", authority.File)
		r.expect(exitFailure, "set both --username and --password-file", append(common, "--username", "alice")...)
		t.Setenv(serverVariable, server)
		t.Setenv(caFileVariable, authority.File)
		t.Setenv(usernameVariable, "alice")
		t.Setenv(passwordFileVariable, right)
		r.expect(exitFine, reloaded, "reload")
		r.expect(exitFine, reloaded, "reload", "--socket", r.socket)
	})
	t.Run("users without TLS", func(t *testing.T) {
		r, _, _ := begin(t, users)
		r.expectResponse(200, "", "POST /-/reload", signed)
		r.expectResponse(401, "", "GET /-/healthy")
		// Authenticated clients may not make cross-origin requests either.
		r.expectResponse(403, "cross-origin", "POST /-/reload", signed, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
		r.expectResponse(403, "cross-origin", "GET /debug/pprof/heap", signed, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		r.expectResponse(403, "is not an accepted host name", "GET /-/ready", signed, as("evil.example"))
	})
}

// TestWriters checks that only clients in daemon.writers may write, that a reload changes the list,
// and that the log contains the author of a change.
func TestWriters(t *testing.T) {
	dir := openDir(t)
	authority := webtest.NewCA(t, dir, "authority")
	authority.Issue(t, "server")
	carol, carolsKey := authority.Issue(t, "carol")
	path := webtest.Write(t, dir, "web.yml", "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"+
		"  client_ca_file: authority.crt\n  client_auth_type: VerifyClientCertIfGiven\n"+
		"basic_auth_users:\n  alice: "+webtest.Hash(t, "wonder")+"\n  prometheus: "+webtest.Hash(t, "wonder")+"\n")
	password := webtest.Write(t, dir, "password", "wonder\n")
	begin := fmt.Sprintf("web_config = %q\n", path)
	r := runConfig(t, dir, begin+"writers = [\"alice\"]\n")
	reload := func(user string, more ...string) []string {
		return append([]string{
			"reload", "--server", "https://" + r.address, "--ca-file", authority.File,
			"--username", user, "--password-file", password,
		}, more...)
	}
	r.expect(exitFine, reloaded, reload("alice")...)
	if want := `"msg":"reloaded","author":"alice"`; !strings.Contains(r.log.String(), want) {
		t.Errorf("the log does not contain %s", want)
	}
	r.expect(exitFailure, `"prometheus" is not in daemon.writers`, reload("prometheus")...)
	r.expectResponse(400, "HTTP request to an HTTPS server", "POST /-/reload", signed)

	webtest.Write(t, dir, "hpad.toml", strings.Replace(r.config, `"alice"`, `"prometheus"`, 1))
	r.expect(exitFine, reloaded, "reload", "--socket", r.socket)
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`"msg":"reloaded","author":%q`, self.Username); !strings.Contains(r.log.String(), want) {
		t.Errorf("the log does not contain %s", want)
	}
	r.expect(exitFailure, `"alice" is not in daemon.writers`, reload("alice")...)
	r.expect(exitFailure, `"alice" is not in daemon.writers`, reload("alice", "--cert-file", carol, "--key-file", carolsKey)...)
	r.expect(exitFine, reloaded, reload("prometheus")...)
}

// TestServerNames checks that the URL of a server is validated and printed without secrets.
func TestServerNames(t *testing.T) {
	r := &running{t: t}
	for server, want := range map[string]string{
		"vm1:4720":                 "does not begin with http:// or https://",
		"https://":                 "it has no host",
		"https://bob:hunter2@vm1":  "use --username and --password-file instead",
		"https://bob:hunter2@%zz":  "it is not a URL",
		"https://vm1/?token=x":     "a query or a fragment",
		"http://" + freeAddress(t): "is hpad running, and is daemon.listen this address?",
	} {
		code, _, errs := r.hpad("get", "--server", server)
		if code != exitFailure || !strings.Contains(errs, want) || strings.Contains(errs, "hunter2") {
			t.Errorf("--server %s: exit code %d, error %s, want %q and no password", server, code, errs, want)
		}
	}
	r.expect(exitWrongUse, "--socket and --server are mutually exclusive", "get", "--server", "http://vm1", "--socket", "/x")
}

// TestSocketUsers checks that only root and the socket's group can use the socket. It runs hpad as
// different system users.
func TestSocketUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		const reason = "only root may run commands as other users"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	const nobody, group, stranger = 65534, 54321, 54322
	dir := openDir(t)
	r := runConfig(t, dir, fmt.Sprintf("socket_group = \"%d\"\n", group))
	for name, want := range map[string]fs.FileMode{r.socket: 0o660, filepath.Dir(r.socket): 0o750} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != want || stat.Gid != group {
			t.Errorf("%s has mode %o and group %d, want %o and %d", name, info.Mode().Perm(), stat.Gid, want, group)
		}
	}
	// Link or copy the test program, because other users cannot access its directory.
	program := filepath.Join(dir, "hpad")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(own, program); err != nil {
		copyProgram(t, own, program)
	}
	for _, test := range []struct {
		name string
		user *syscall.Credential
		code int
		want string
	}{
		{"root", &syscall.Credential{}, exitFine, reloaded},
		{"a member of the group", &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{group}}, exitFine, reloaded},
		{"a user with the group as primary group", &syscall.Credential{Uid: nobody, Gid: group}, exitFine, reloaded},
		{"another user", &syscall.Credential{Uid: nobody, Gid: nobody}, exitFailure, "permission denied"},
		{"a member of another group", &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{stranger}}, exitFailure, "permission denied"},
	} {
		for _, command := range [][]string{{"get"}, {"reload"}} {
			if command[0] == "get" && test.code == exitFine {
				test.want = "No autoscalers are configured."
			} else if test.code == exitFine {
				test.want = reloaded
			}
			cmd := exec.CommandContext(t.Context(), program, append(command, "--socket", r.socket)...)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=/usr/bin:/bin"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: test.user}
			out, err := cmd.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
				t.Fatal(err)
			} else if code := exitOf(exit); code != test.code || !strings.Contains(string(out), test.want) {
				t.Errorf("%s: hpad %s: exit code %d, output %s; want %d and %q", test.name, command[0], code, out, test.code, test.want)
			}
		}
	}
}

func exitOf(exit *exec.ExitError) int {
	if exit == nil {
		return exitFine
	}
	return exit.ExitCode()
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidWebConfig checks that "hpad check" reports an invalid web config, that the daemon
// does not start with it, and that a reload with it changes nothing.
func TestInvalidWebConfig(t *testing.T) {
	dir := openDir(t)
	path := webtest.Write(t, dir, "web.yml", "basic_auth_users:\n  alice: "+webtest.Hash(t, "wonder")+"\n")
	r := runConfig(t, dir, fmt.Sprintf("web_config = %q\n", path))
	file := filepath.Join(dir, "hpad.toml")
	r.expect(exitFine, "valid", "check", file)
	webtest.Write(t, dir, "web.yml", "basic_auth_users:\n  alice: hunter2\n")
	want := fmt.Sprintf(`%s:5: daemon.web_config = %q: basic_auth_users: the hash of user "alice"`, file, path)
	r.expect(exitInvalidConfig, want, "check", file)
	r.expect(exitFailure, want, "reload", "--socket", r.socket)
	if err := runDaemon(t.Context(), runOptions{file: file, log: zap.NewNop()}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if strings.Contains(r.log.String(), "hunter2") {
		t.Error("the log contains the password")
	}
	other := strings.Replace(r.config, path, "", 1) + "allowed_hosts = [\"vm1\"]\nsocket_group = \"hpad\"\n"
	webtest.Write(t, dir, "hpad.toml", other)
	r.expect(exitFine, reloaded, "reload", "--socket", r.socket)
	for _, key := range []string{"web_config", "allowed_hosts", "socket_group"} {
		if !strings.Contains(r.log.String(), `"key":"daemon.`+key+`"`) {
			t.Errorf("the log does not contain the pending change of %s", key)
		}
	}
}
