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

// sshHelper returns the library's connection helper, which also provides the host name for
// requests.
func sshHelper(c *Config) (*connhelper.ConnectionHelper, error) {
	// Without a terminal, ssh cannot prompt for a password. Stopping a container has no
	// timeout, so ssh must detect a broken connection.
	return connhelper.GetConnectionHelperWithSSHOpts(c.Host, []string{
		"-o BatchMode=yes", fmt.Sprintf("-o ConnectTimeout=%d", max(1, int(c.Timeout.Seconds()))), "-o ServerAliveInterval=15",
	})
}

// sshDialer connects through the ssh program.
type sshDialer struct {
	// life ends all connection attempts when it is canceled.
	life context.Context
	// timeout limits one attempt, including the engine's first response.
	timeout time.Duration
	start   func(ctx context.Context, network, address string) (net.Conn, error)
}

// dial returns a connection on which the engine has already responded. A process that starts
// may still fail to connect, and a request sent to it would be lost.
func (d *sshDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := targets.WithCallTimeout(ctx, d.timeout)
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
	return d.begin(ctx, network, address) // the first connection accepts no further request
}

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

// proven waits for a response and reports whether the connection accepts more requests.
func proven(connection net.Conn) (more bool, err error) {
	// If the process has exited, its error is returned by the read, not by the write.
	_, _ = io.WriteString(connection, "HEAD /_ping HTTP/1.1\r\nHost: docker\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: http.MethodHead})
	if err != nil {
		return false, err
	}
	return !response.Close, response.Body.Close()
}

// sshConnection is a connection through an ssh process. After the process has failed, reads
// return an sshError.
type sshConnection struct{ net.Conn }

// Read reads from the connection.
func (c sshConnection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, explainSSH(err)
}

// sshError describes an ssh process that has exited.
type sshError struct {
	// status is its exit status, such as "exit status 255".
	status string
	// output is the end of its error output, joined into one line.
	output string
}

// Exit statuses: sshFailed means that ssh itself failed, sshNotFound that the remote command
// was not found.
const (
	sshFailed   = "exit status 255"
	sshNotFound = "exit status 127"
)

// Error does not contain the output, because the client would interpret phrases such as "dial
// unix".
func (e *sshError) Error() string { return "ssh exited with " + e.status }

// problem returns a description of the failure, with the output.
func (e *sshError) problem() string {
	details := cmp.Or(e.output, e.status)
	switch e.status {
	case sshFailed:
		return "ssh failed: " + details
	case sshNotFound:
		return "docker was not found on the remote host: " + details
	}
	return `"docker system dial-stdio" failed on the remote host: ` + details
}

// advice returns the remedy for the failure.
func (e *sshError) advice(host string) string {
	if e.status == sshNotFound {
		return "install Docker's command line there, in the PATH of ssh commands"
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
	return fmt.Sprintf(`"ssh %s docker version" must work for hpad's user without a prompt`, destination)
}

// ended matches the library's error for a process that has exited, and captures its status and
// output.
var ended = regexp.MustCompile(`(?s)has exited with (.*?), make sure the URL is valid, .*?: stderr=(.*)$`)

// explainSSH converts the library's error for a process that has exited to an sshError.
func explainSSH(err error) error {
	if err == nil {
		return nil
	}
	found := ended.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	return &sshError{status: found[1], output: lastWords(found[2])}
}

// lastWords joins the last two nonempty lines into one line. Earlier lines are banners and
// warnings.
func lastWords(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Trim(line, "@") != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-2):], " ")
}
