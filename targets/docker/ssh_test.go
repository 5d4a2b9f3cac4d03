package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// TestSSHEnded wants an error with what ssh said, and what to do about it.
func TestSSHEnded(t *testing.T) {
	const ended = "command [ssh -T -- vm] has exited with %s, make sure the URL is valid, and Docker 18.09 or later is installed on the remote host: stderr=%s"
	for _, test := range []struct {
		name, status, said, host, want string
	}{
		{
			"refused", "exit status 255", "me@vm: Permission denied (publickey).\r\n", "ssh://me@vm:2222",
			`ssh says: me@vm: Permission denied (publickey).; as hpad's user "ssh -p 2222 me@vm docker version" has to work without a question`,
		},
		{
			"greeting", "exit status 255", "Welcome!\n\nssh: connect to host vm port 22: Connection refused\n", "ssh://vm",
			`ssh says: Welcome! ssh: connect to host vm port 22: Connection refused; as hpad's user "ssh vm docker version" has to work without a question`,
		},
		{
			"another key", "exit status 255", "@@@@@@@@\n@    WARNING    @\n@@@@@@@@\nIT IS POSSIBLE\n  remove with:\nHost key for vm has changed.\nHost key verification failed.\n", "ssh://vm/run/docker.sock",
			`ssh says: Host key for vm has changed. Host key verification failed.; as hpad's user "ssh vm docker version" has to work without a question`,
		},
		{
			"no docker", "exit status 127", "sh: 1: docker: not found\n", "ssh://vm",
			"there is no docker on the other side: sh: 1: docker: not found; install Docker's command line there, where commands by ssh find it on their PATH",
		},
		{
			"no engine", "exit status 1", "dial unix /run/docker.sock: connect: no such file or directory\n", "ssh://vm",
			`"docker system dial-stdio" on the other side says: dial unix /run/docker.sock: connect: no such file or directory; as hpad's user "ssh vm docker version" has to work without a question`,
		},
		{
			"silent", "signal: killed", "", "ssh://vm",
			`"docker system dial-stdio" on the other side says: signal: killed; as hpad's user "ssh vm docker version" has to work without a question`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := connect(t, test.host)
			err := fmt.Errorf("read: %w", explainSSH(fmt.Errorf(ended, test.status, test.said)))
			if got := e.advise(err).Error(); got != test.want {
				t.Errorf("it is told as\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	if err := errors.New("use of closed network connection"); !errors.Is(explainSSH(err), err) || explainSSH(nil) != nil {
		t.Errorf("explainSSH(%v) = %v, want it unchanged", err, explainSSH(err))
	}
}

// TestSSHIsGone: what was to be sent over an ssh that cannot connect any more was
// not sent, and nobody has to ask whether it was.
func TestSSHIsGone(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("PATH", sshPath(t))
	t.Setenv(asSSH, serveUnix(t, &imitation{version: "1.41"}))
	e := connect(t, "ssh://me@192.0.2.1")
	if err := inspect(e); err != nil {
		t.Fatal(err)
	}
	t.Setenv(asSSH, "/no/such.sock")
	e.link.Load().transport.CloseIdleConnections()
	if err := remove(e); !errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrUnknownOutcome) || !strings.Contains(err.Error(), "Permission denied (publickey)") {
		t.Errorf("Write() = %v, want ErrTransient with what ssh says and a known outcome", err)
	}
}

// TestSSHOneByOne: an engine, or what is in front of it, may close a connection
// after each response.
func TestSSHOneByOne(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("PATH", sshPath(t))
	i := &imitation{version: "1.41"}
	t.Setenv(asSSH, serveUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		i.ServeHTTP(w, r)
	})))
	e := connect(t, "ssh://me@192.0.2.1")
	for range 2 {
		if err := inspect(e); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSSHEndsWithItsEngine: an attempt to connect that is under way ends with the
// engine, and the process with it.
func TestSSHEndsWithItsEngine(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("PATH", sshPath(t))
	path := filepath.Join(t.TempDir(), "silent.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv(asSSH, path)
	e, err := Connect(&Config{Host: "ssh://me@192.0.2.1", Timeout: time.Hour, ResourceInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() { failed <- inspect(e) }()
	connection, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	request := make([]byte, len("HEAD /_ping "))
	if _, err := io.ReadFull(connection, request); err != nil || string(request) != "HEAD /_ping " {
		t.Errorf("the process sent %q, %v, want a question", request, err)
	}
	e.Close()
	if err := <-failed; !errors.Is(err, targets.ErrTransient) || !errors.Is(err, context.Canceled) {
		t.Errorf("Read() = %v, want ErrTransient of a call that was canceled", err)
	}
	if _, err := io.Copy(io.Discard, connection); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
