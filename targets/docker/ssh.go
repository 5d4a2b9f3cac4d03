package docker

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/docker/cli/cli/connhelper"

	"github.com/hpad/hpad/targets"
)

// sshHelper returns the library's way to an engine by the ssh program, and the host that
// requests then name.
func sshHelper(c *Config) (*connhelper.ConnectionHelper, error) {
	// Nobody is there to give a password. A stop has no limit of its own, so ssh has to
	// find out when the other side is gone.
	return connhelper.GetConnectionHelperWithSSHOpts(c.Host, []string{
		"-o BatchMode=yes", fmt.Sprintf("-o ConnectTimeout=%d", max(1, int(c.Timeout.Seconds()))), "-o ServerAliveInterval=15",
	})
}

// sshDialer connects by the ssh program.
type sshDialer struct {
	// life ends attempts that are under way.
	life context.Context
	// timeout bounds one attempt, to the engine's first response.
	timeout time.Duration
	// start starts a process.
	start func(ctx context.Context, network, address string) (net.Conn, error)
}

// dial returns a connection on which the engine has responded: a process is there before
// it is known whether it can connect, and so whether what is sent then would be lost.
func (d *sshDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := targets.Bounded(ctx, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	connection, err := d.begin(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	more, err := proven(connection)
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err == nil && more {
		return connection, nil
	}
	_ = connection.Close()
	if err != nil {
		return nil, err
	}
	return d.begin(ctx, network, address) // It takes one request at a time.
}

// begin starts a process, and returns its connection.
func (d *sshDialer) begin(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := d.start(ctx, network, address)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w; install ssh (openssh-client)", err)
	case err != nil:
		return nil, err
	}
	return sshConnection{connection}, nil
}

// proven waits for a response, whatever it is, and reports whether the connection takes
// more requests.
func proven(connection net.Conn) (more bool, err error) {
	// Why a process has ended is in the error of reading, not of writing.
	_, _ = io.WriteString(connection, "HEAD /_ping HTTP/1.1\r\nHost: docker\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: http.MethodHead})
	if err != nil {
		return false, err
	}
	return !response.Close, response.Body.Close()
}

// sshConnection is a connection through an ssh process. When that has ended for a
// reason, reads fail with an sshError.
type sshConnection struct{ net.Conn }

// Read reads what comes from the other side.
func (c sshConnection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, explainSSH(err)
}

// sshError is why an ssh process ended.
type sshError struct {
	// status is how it ended, as "exit status 255".
	status string
	// said is the end of what it said, in one line.
	said string
}

// Exit statuses of ssh: its own failure, and that of a shell on the other side
// which finds no such command.
const (
	sshFailed   = "exit status 255"
	sshNotFound = "exit status 127"
)

// Error leaves out what was said: the client takes words such as "dial unix" for its
// own.
func (e *sshError) Error() string { return "ssh has ended with " + e.status }

// words returns what is wrong.
func (e *sshError) words() string {
	said := cmp.Or(e.said, e.status)
	switch e.status {
	case sshFailed:
		return "ssh says: " + said
	case sshNotFound:
		return "there is no docker on the other side: " + said
	}
	return `"docker system dial-stdio" on the other side says: ` + said
}

// advice returns what is to be done about it, where host was to be reached.
func (e *sshError) advice(host string) string {
	if e.status == sshNotFound {
		return "install Docker's command line there, where commands by ssh find it on their PATH"
	}
	destination := strings.TrimPrefix(host, "ssh://")
	if address, err := url.Parse(host); err == nil {
		destination = address.Hostname()
		if address.User != nil {
			destination = address.User.Username() + "@" + destination
		}
		if address.Port() != "" {
			destination = "-p " + address.Port() + " " + destination
		}
	}
	return fmt.Sprintf(`as hpad's user "ssh %s docker version" has to work without a question`, destination)
}

// ended matches the library's error of a process that ended, with its status and words.
var ended = regexp.MustCompile(`(?s)has exited with (.*?), make sure the URL is valid, .*?: stderr=(.*)$`)

// explainSSH returns an sshError for the library's error of an ssh that has ended.
func explainSSH(err error) error {
	if err == nil {
		return nil
	}
	found := ended.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	return &sshError{status: found[1], said: lastWords(found[2])}
}

// lastWords returns the last two lines with letters in them as one: those before are
// greetings and warnings.
func lastWords(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Trim(line, "@") != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-2):], " ")
}
