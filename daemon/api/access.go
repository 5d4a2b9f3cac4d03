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

// Access returns the author of a write, or an error with the reason why the request may not write.
// The name is empty if the system does not know the user. It is called for each write and is safe
// for concurrent use.
type Access func(r *http.Request) (author string, err error)

var errReadOnly = errors.New(`which this listener does not accept: use the unix socket, as the hpad commands do, or configure authentication with daemon.web_config`)

// ReadOnly rejects every write. It is for TCP without authentication.
func ReadOnly(*http.Request) (string, error) { return "", errReadOnly }

// Full allows everything. It is for the unix socket, which is protected by file permissions. The
// author is the user of the connected process, if the server uses PeerContext.
func Full(r *http.Request) (string, error) { return peerUser(r.Context()), nil }

// Writers restricts an access to the authors in writers. Without any name there it is the access
// itself. It calls both for every request.
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

// Authors of configuration changes that no user requested.
const (
	AuthorLabels = "labels"
	AuthorSignal = "SIGHUP"
)

// WithAuthor returns a context for a write that author requests.
func WithAuthor(ctx context.Context, author string) context.Context {
	return context.WithValue(ctx, authorKey{}, author)
}

type authorKey struct{}

// Author returns the author of the write; empty if the system does not know the user, and for
// actions of hpad itself.
func Author(ctx context.Context) string {
	author, _ := ctx.Value(authorKey{}).(string)
	return author
}

// BrokenWebConfig returns the handler for requests that cannot be authenticated because the web
// config is invalid. It does not show the content of the file.
func BrokenWebConfig() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusInternalServerError, ErrorInternal, brokenWebConfig)
	})
}

const brokenWebConfig = `the server cannot authenticate clients: its web config is invalid or cannot be read; see its log, or run "hpad check" on the server`

// CheckHosts returns next behind a check of the Host header, which prevents DNS rebinding: a web
// site could resolve its own name to hpad's address and read responses in the browser of a visitor.
// Addresses, localhost and the allowed hosts pass.
func CheckHosts(allowed []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostName(r.Host)
		if !isOwnHost(host) && !slices.ContainsFunc(allowed, func(name string) bool { return hostName(name) == host }) {
			writeError(w, http.StatusForbidden, ErrorForbidden,
				fmt.Sprintf("%q is not a name of this hpad: use localhost or an address, or add the name to daemon.allowed_hosts", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName returns a host in lower case without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isOwnHost reports whether no other web site can have this host: an address, localhost, or an
// empty host from an old client.
func isOwnHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Headers of requests between members of a cluster. A request with MemberHeader is never forwarded
// again. AuthorHeader is the author for whom a member sends the request; it counts only if Members
// trusts the sender.
const (
	MemberHeader = "Hpad-Member"
	AuthorHeader = "Hpad-Author"
)

// Members returns an access that accepts AuthorHeader from the users in names.
func Members(access Access, names []string) Access {
	return func(r *http.Request) (string, error) {
		author, err := access(r)
		if asked := r.Header.Get(AuthorHeader); err == nil && asked != "" && slices.Contains(names, author) {
			author = asked
		}
		return author, err
	}
}

// ByMember passes requests from cluster members to alone, and all others to whole.
func ByMember(alone, whole http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(MemberHeader) != "" {
			alone.ServeHTTP(w, r)
			return
		}
		whole.ServeHTTP(w, r)
	})
}

// peerName returns " (process 42)" for the process at the other end of a unix socket; empty if it
// is unknown.
func peerName(conn net.Conn) string {
	cred := peerOf(conn)
	if cred == nil || cred.Pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", cred.Pid)
}

// peerOf returns the credentials of the other end of a unix socket; nil if they are unknown.
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

// PeerContext is the ConnContext of a server on a unix socket. Full needs it.
func PeerContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, conn)
}

// peerUser returns the user name of the process at the other end of a unix socket, or its number
// without a name; empty if it is unknown.
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
