package targets

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
)

// SocketPath resolves the symbolic links in the path of a socket. If the file does not exist, it
// resolves the existing part of the path.
func SocketPath(path string) string {
	path = filepath.Clean(path)
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	dir, name := filepath.Split(path)
	if dir == path || dir == "" {
		return path
	}
	return filepath.Join(SocketPath(dir), name)
}

// HostPort returns the host and port of an address in a canonical form: in lower case, with the
// default port for http, https or ssh, and with "localhost" for 127.0.0.1. It does not replace
// other loopback addresses, which may belong to other servers.
func HostPort(address *url.URL) string {
	port := address.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "ssh": "22"}[address.Scheme]
	}
	host := strings.TrimSuffix(strings.ToLower(address.Hostname()), ".")
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
		if host == "127.0.0.1" {
			host = "localhost"
		}
	}
	return net.JoinHostPort(host, port)
}

// ServiceAddress returns the address of an HTTP API in a canonical form: without the scheme and
// the final slash. It does not change text that is not a URL.
func ServiceAddress(text string) string {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" {
		return text
	}
	return HostPort(address) + strings.TrimRight(address.Path, "/")
}
