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

// Access returns who asks for a write, or an error that says why the request may not
// write and what to do. The name is empty where the system has none. It is called for
// each write. It is safe for concurrent use.
type Access func(r *http.Request) (author string, err error)

// errReadOnly is why a listener without access refuses writes.
var errReadOnly = errors.New(`which this listener does not accept: use the unix socket, as the hpad commands do, or let clients say who they are with daemon.web_config`)

// ReadOnly refuses every write. It is for TCP as long as nobody has to say who
// they are there.
func ReadOnly(*http.Request) (string, error) { return "", errReadOnly }

// Full allows everything. It is for the unix socket, which file permissions guard: who
// asks is the user of the process at its other end, where the server knows its
// connections by PeerContext.
func Full(r *http.Request) (string, error) { return peerUser(r.Context()), nil }

// Writers returns the access of those whom identify finds and writers names. Without a
// name there it is all whom identify finds. Both are asked anew each time.
func Writers(writers func() []string, identify Access) Access {
	return func(r *http.Request) (string, error) {
		author, err := identify(r)
		if err != nil {
			return "", err
		}
		if allowed := writers(); len(allowed) > 0 && !slices.Contains(allowed, author) {
			return "", fmt.Errorf("and %q is not in daemon.writers, which names who may write over TCP: ask one of them, or have the name added and hpad reloaded", author)
		}
		return author, nil
	}
}

// Authors of changes of the configuration that no user requested.
const (
	AuthorLabels = "labels"
	AuthorSignal = "SIGHUP"
)

// WithAuthor returns a context of a write that author requests.
func WithAuthor(ctx context.Context, author string) context.Context {
	return context.WithValue(ctx, authorKey{}, author)
}

// authorKey is the context key of who asked for a write.
type authorKey struct{}

// Author returns who asked for the write that a context is of; empty where the system
// has no name, and for what hpad does by itself.
func Author(ctx context.Context) string {
	author, _ := ctx.Value(authorKey{}).(string)
	return author
}

// BrokenWebConfig returns the handler of requests that cannot be let in because the web
// config has a mistake: it is the server's, and nobody's password is wrong. What is in
// the file is not shown.
func BrokenWebConfig() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusInternalServerError, ErrorInternal, brokenWebConfig)
	})
}

// brokenWebConfig is the message while nobody can be let in.
const brokenWebConfig = `the server cannot tell who asks: its web config has a mistake or cannot be read; its log and "hpad check" on the server say what is wrong`

// CheckHosts returns next behind a check of the Host that requests name. Without
// it, a web site could have its own name resolve to hpad's address and read what
// hpad serves in the browser of somebody who may connect (DNS rebinding).
// Addresses, localhost and the hosts of allowed pass; nil refuses every other
// name.
func CheckHosts(allowed []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostName(r.Host)
		if !isOwnHost(host) && !slices.ContainsFunc(allowed, func(name string) bool { return hostName(name) == host }) {
			writeError(w, http.StatusForbidden, ErrorForbidden,
				fmt.Sprintf("%q is no name of this hpad: use localhost or an address, or add the name to daemon.allowed_hosts", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName returns a host without its port, as it is compared.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isOwnHost reports whether a host is one that no other web site can have: an
// address, the machine itself, or none, which only old clients send.
func isOwnHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// The headers of requests between members of a cluster. Who sends MemberHeader is
// answered for the asked member alone, and so no member asks another one in turn.
// AuthorHeader is for whom a member asks; it counts only of those whom Members trusts.
const (
	MemberHeader = "Hpad-Member"
	AuthorHeader = "Hpad-Author"
)

// Members returns an access under which those of the names may say for whom they ask.
func Members(access Access, names []string) Access {
	return func(r *http.Request) (string, error) {
		author, err := access(r)
		if asked := r.Header.Get(AuthorHeader); err == nil && asked != "" && slices.Contains(names, author) {
			author = asked
		}
		return author, err
	}
}

// ByMember returns a handler that leaves requests of members to another one.
func ByMember(alone, whole http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(MemberHeader) != "" {
			alone.ServeHTTP(w, r)
			return
		}
		whole.ServeHTTP(w, r)
	})
}

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
