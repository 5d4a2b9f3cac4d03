package api

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerName returns which process listens at the other end of a connection to a
// unix socket, as " (process 42)", or nothing when the kernel does not know.
func peerName(conn net.Conn) string {
	cred := peerOf(conn)
	if cred == nil || cred.Pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", cred.Pid)
}

// peerOf returns whose process is at the other end of a connection to a unix socket;
// nil when the kernel does not know.
func peerOf(conn net.Conn) *unix.Ucred {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return nil
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return nil
	}
	return cred
}

// peerKey is the context key of the connection that a request came over.
type peerKey struct{}

// PeerContext is the ConnContext of the server of a unix socket, by which Full finds
// out who asks.
func PeerContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn)
}

// peerUser returns the name of the user whose process asks over a unix socket, or its
// number where it has no name; empty where the connection is not known.
func peerUser(ctx context.Context) string {
	conn, _ := ctx.Value(peerKey{}).(net.Conn)
	cred := peerOf(conn)
	if cred == nil {
		return ""
	}
	id := strconv.FormatUint(uint64(cred.Uid), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return id
}
