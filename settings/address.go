package settings

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// unexpanded is the error for a variable in the configuration.
const unexpanded = "contains a variable, and hpad does not expand variables: write the value, or generate the file from the environment of the unit before hpad starts, " +
	"such as with envsubst in ExecStartPre; put secrets in the files or credentials that the configuration names"

// Unexpanded returns the error for an address with a variable of a different tool, such as
// "${HOST}", or "".
func Unexpanded(text string) string {
	if Placeholder(text) == "" {
		return ""
	}
	return unexpanded
}

// validHost matches host names, with underscores and non-ASCII letters, and numericHost the form of
// an IPv4 address.
var (
	validHost   = regexp.MustCompile(`^([\p{L}\p{N}_]([\p{L}\p{N}_-]*[\p{L}\p{N}_])?)(\.[\p{L}\p{N}_]([\p{L}\p{N}_-]*[\p{L}\p{N}_])?)*\.?$`)
	numericHost = regexp.MustCompile(`^[0-9.]*$`)
)

// maxHost is the maximum length of a host name in bytes.
const maxHost = 253

// ValidHost reports whether a text is a host name or an IP address without brackets.
func ValidHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return len(host) <= maxHost && validHost.MatchString(host) && !numericHost.MatchString(host)
}

// PortRange is the end of an error for an invalid port.
const PortRange = "; the port must be a number from 1 to 65535"

// validPort reports whether a text is a number from 1 to 65535.
func validPort(port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// CheckHostPort returns the error for an invalid address of the form HOST:PORT, or "" if it is
// valid. form is the error for a different form.
func CheckHostPort(text, form string) string {
	if detail := Unexpanded(text); detail != "" {
		return detail
	}
	host, port, err := net.SplitHostPort(text)
	switch {
	case err != nil || !ValidHost(host):
		return form
	case !validPort(port):
		return form + PortRange
	}
	return ""
}

// ParseURL parses a URL. If it is invalid, the error message is not empty. form is the error for a
// different form.
func ParseURL(text, form string) (address *url.URL, detail string) {
	if detail := Unexpanded(text); detail != "" {
		return nil, detail
	}
	address, err := url.Parse(text)
	switch {
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		return nil, form + PortRange
	case err != nil:
		return nil, form
	}
	return address, ""
}

// CheckAuthority returns the error for the host and optional port of a URL, or "" if they are valid.
// form is the error for an invalid host.
func CheckAuthority(authority, hostname, port, form string) string {
	switch {
	case !ValidHost(strings.TrimSuffix(hostname, ".")):
		return form
	case port == "" && strings.HasSuffix(authority, ":"), port != "" && !validPort(port):
		return form + PortRange
	}
	return ""
}
