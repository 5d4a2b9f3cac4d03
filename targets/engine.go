package targets

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
)

// SocketPath returns the one path of a socket on this machine, whatever links lead
// to it. Of what does not exist it is the path with the links of its directory
// resolved, as far as there is one.
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

// HostPort returns the host and port of an address in one spelling: in lower case,
// with the port of http, https or ssh where it names none, and 127.0.0.1 as
// "localhost". Other addresses of the loopback interface may be of others.
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

// ServiceAddress returns the address of an HTTP API in one spelling: without its
// scheme and without a slash at its end. What is no URL is returned as it is.
func ServiceAddress(text string) string {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" {
		return text
	}
	return HostPort(address) + strings.TrimRight(address.Path, "/")
}
