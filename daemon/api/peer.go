package api

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerName returns which process listens at the other end of a connection to a
// unix socket, as " (process 42)", or nothing when the kernel does not know.
func peerName(conn net.Conn) string {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return ""
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return ""
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil || cred.Pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", cred.Pid)
}
