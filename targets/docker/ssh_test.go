package docker

import (
	"errors"
	"fmt"
	"testing"
)

func TestSSHEnded(t *testing.T) {
	const ended = "command [ssh -T -- vm] has exited with %s, make sure the URL is valid, and Docker 18.09 or later is installed on the remote host: stderr=%s"
	for _, test := range []struct {
		name, status, said, host, want string
	}{
		{
			"refused", "exit status 255", "me@vm: Permission denied (publickey).\r\n", "ssh://me@vm:2222",
			`ssh failed: me@vm: Permission denied (publickey).; "ssh -p 2222 me@vm docker version" must work for hpad's user without a prompt`,
		},
		{
			"greeting", "exit status 255", "Welcome!\n\nssh: connect to host vm port 22: Connection refused\n", "ssh://vm",
			`ssh failed: Welcome! ssh: connect to host vm port 22: Connection refused; "ssh vm docker version" must work for hpad's user without a prompt`,
		},
		{
			"another key", "exit status 255", "@@@@@@@@\n@    WARNING    @\n@@@@@@@@\nIT IS POSSIBLE\n  remove with:\nHost key for vm has changed.\nHost key verification failed.\n", "ssh://vm/run/docker.sock",
			`ssh failed: Host key for vm has changed. Host key verification failed.; "ssh vm docker version" must work for hpad's user without a prompt`,
		},
		{
			"no docker", "exit status 127", "sh: 1: docker: not found\n", "ssh://vm",
			"docker was not found on the remote host: sh: 1: docker: not found; install Docker's command line there, in the PATH of ssh commands",
		},
		{
			"no engine", "exit status 1", "dial unix /run/docker.sock: connect: no such file or directory\n", "ssh://vm",
			`"docker system dial-stdio" failed on the remote host: dial unix /run/docker.sock: connect: no such file or directory; "ssh vm docker version" must work for hpad's user without a prompt`,
		},
		{
			"silent", "signal: killed", "", "ssh://vm",
			`"docker system dial-stdio" failed on the remote host: signal: killed; "ssh vm docker version" must work for hpad's user without a prompt`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := connect(t, test.host)
			err := fmt.Errorf("read: %w", explainSSH(fmt.Errorf(ended, test.status, test.said)))
			if got := e.advise(err).Error(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	if err := errors.New("use of closed network connection"); !errors.Is(explainSSH(err), err) || explainSSH(nil) != nil {
		t.Errorf("explainSSH(%v) = %v, want the unchanged error", err, explainSSH(err))
	}
}
