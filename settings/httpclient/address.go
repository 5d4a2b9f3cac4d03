package httpclient

import (
	"errors"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"
)

// Address specifies which http and https addresses are valid for a key.
type Address struct {
	// Form is the error for a text that is not an http or https address.
	Form string
	// Credentials names the keys to use instead of credentials in the address; may be empty.
	Credentials string
	// End is the error for an address with a query or a fragment. If it is empty, both are allowed.
	End string
}

// Check returns the error message for an invalid address, or "" if the address is valid.
func (a Address) Check(text string) string {
	address, detail := settings.ParseURL(text, a.Form)
	switch {
	case detail != "":
		return detail
	case address.User != nil && a.Credentials == "":
		return "must not contain credentials"
	case address.User != nil:
		return "must not contain credentials: use " + a.Credentials
	case address.Scheme != "http" && address.Scheme != "https", address.Hostname() == "":
		return a.Form
	}
	if detail := settings.CheckAuthority(address.Host, address.Hostname(), address.Port(), a.Form); detail != "" {
		return detail
	}
	if address.RawQuery != "" || address.ForceQuery || address.Fragment != "" {
		return a.End
	}
	return ""
}

// Exposed returns the host of an address if requests to it leave this host without TLS, and ""
// otherwise.
func Exposed(text string) string {
	address, err := url.Parse(text)
	if err != nil || address.Scheme != "http" {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return ""
	}
	return address.Host
}

// QuoteAddress quotes an invalid address for error messages. It returns "" if the address may
// contain a secret.
func QuoteAddress(text string) string {
	if strings.ContainsAny(text, "@?") {
		return ""
	}
	return strconv.Quote(text)
}

// Stamp detects changes to a file by its modification time and size. Compare stamps with ==.
type Stamp struct {
	path string
	// modified and size are zero if the file does not exist.
	modified time.Time
	size     int64
}

// StampFiles returns the stamps of files without reading them. It ignores empty paths.
func StampFiles(paths ...string) []Stamp {
	var stamps []Stamp
	for _, path := range paths {
		if path == "" {
			continue
		}
		s := Stamp{path: path}
		if info, err := os.Stat(path); err == nil {
			s.modified, s.size = info.ModTime(), info.Size()
		}
		stamps = append(stamps, s)
	}
	return stamps
}

// WithoutSecrets returns a URL without credentials, query and fragment, for error messages.
func WithoutSecrets(text string) string {
	address, err := url.Parse(text)
	if err != nil {
		return "(invalid URL)"
	}
	address.User, address.RawQuery, address.Fragment = nil, "", ""
	return address.String()
}

// WithoutURL returns the error of a request without the URL, which may contain secrets.
func WithoutURL(err error) error {
	if failure, ok := errors.AsType[*url.Error](err); ok {
		return failure.Err
	}
	return err
}
