package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

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
