package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Access returns the author of a write, or the reason why the request may not write. The author
// is empty if the system cannot identify the user. Access is called for each write and is safe
// for concurrent use.
type Access func(r *http.Request) (author string, err error)

var errReadOnly = errors.New(`which this listener does not accept: use the unix socket, as the hpad commands do, or configure authentication with daemon.web_config`)

// ReadOnly is an Access that rejects every write. It is for TCP without authentication.
func ReadOnly(*http.Request) (string, error) { return "", errReadOnly }

// Full is an Access that allows every write. It is for the unix socket, which file permissions
// protect. The author is the user of the connected process if the server uses PeerContext.
func Full(r *http.Request) (string, error) { return peerUser(r.Context()), nil }

// Writers returns an Access that allows only writes by the authors that writers returns. If
// writers returns no names, every author that identify accepts may write. It calls both functions
// for every request.
func Writers(writers func() []string, identify Access) Access {
	return func(r *http.Request) (string, error) {
		author, err := identify(r)
		if err != nil {
			return "", err
		}
		if allowed := writers(); len(allowed) > 0 && !slices.Contains(allowed, author) {
			return "", fmt.Errorf("but %q is not in daemon.writers, the users that may write over TCP: add the name and reload hpad", author)
		}
		return author, nil
	}
}

// Authors of configuration changes that are not requested by a user.
const (
	AuthorLabels  = "labels"
	AuthorRestart = "restart"
	AuthorSignal  = "SIGHUP"
)

// WithAuthor returns a context for a write that author requests.
func WithAuthor(ctx context.Context, author string) context.Context {
	return context.WithValue(ctx, authorKey{}, author)
}

type authorKey struct{}

// Author returns the author of the write. It returns "" if the system cannot identify the user,
// and for actions by hpad itself.
func Author(ctx context.Context) string {
	author, _ := ctx.Value(authorKey{}).(string)
	return author
}

// CheckHosts returns a handler that checks the Host header before it calls next. It accepts IP
// addresses, localhost and the allowed hosts. The check prevents DNS rebinding, in which a web
// site resolves its own name to hpad's address and reads responses in a visitor's browser.
func CheckHosts(allowed []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostName(r.Host)
		if !isOwnHost(host) && !slices.ContainsFunc(allowed, func(name string) bool { return hostName(name) == host }) {
			writeError(w, ErrorForbidden,
				fmt.Sprintf("%q is not an accepted host name: use localhost or an IP address, or add the name to daemon.allowed_hosts", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isOwnHost reports whether a host cannot be the name of a different web site, which is the case
// for IP addresses, for localhost, and for the empty host that old clients send.
func isOwnHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Headers of requests between members of a cluster. A request with MemberHeader is never forwarded
// again. authorHeader contains the author on whose behalf a member sends the request. It is used
// only if Members trusts the sender.
const (
	MemberHeader = "Hpad-Member"
	authorHeader = "Hpad-Author"
)

// Members returns an Access that uses authorHeader if the request comes from a member of the
// cluster. isMember reports whether a user is a member; it may be nil.
func Members(access Access, isMember func(user string) bool) Access {
	return func(r *http.Request) (string, error) {
		author, err := access(r)
		if forwarded := r.Header.Get(authorHeader); err == nil && forwarded != "" && isMember != nil && isMember(author) {
			author = forwarded
		}
		return author, err
	}
}

// ByMember returns a handler that calls alone for requests from cluster members, and whole for all
// other requests.
func ByMember(alone, whole http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(MemberHeader) != "" {
			alone.ServeHTTP(w, r)
			return
		}
		whole.ServeHTTP(w, r)
	})
}

// peerName returns a string such as " (process 42)" for the process at the other end of a unix
// socket, or "" if the process is unknown.
func peerName(conn net.Conn) string {
	cred := peerOf(conn)
	if cred == nil || cred.Pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", cred.Pid)
}

// peerOf returns the credentials of the process at the other end of a unix socket, or nil if they
// are unknown.
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

type peerKey struct{}

// PeerContext is the http.Server.ConnContext of a server on a unix socket. Full needs it.
func PeerContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn)
}

// peerUser returns the user name of the process at the other end of a unix socket. It returns the
// user ID if the user has no name, and "" if the user is unknown.
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
