package httpclient

import (
	"net/url"
	"strconv"
	"strings"
)

// Address defines the valid http and https addresses of a key.
type Address struct {
	// Form is the error for a text that is not such an address.
	Form string
	// Credentials are the keys to use instead of credentials in the address; may be empty.
	Credentials string
	// End is the error for a query or a fragment; empty allows them.
	End string
}

// Check returns the error of an address; "" if it is valid.
func (a Address) Check(text string) string {
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return a.Form
	case address.User != nil && a.Credentials == "":
		return "must not contain credentials"
	case address.User != nil:
		return "must not contain credentials: use " + a.Credentials
	case address.Scheme != "http" && address.Scheme != "https", address.Hostname() == "":
		return a.Form
	case address.RawQuery != "" || address.ForceQuery || address.Fragment != "":
		return a.End
	}
	return ""
}

// QuoteAddress returns an invalid address for messages; "" if it may contain a secret.
func QuoteAddress(text string) string {
	if strings.ContainsAny(text, "@?") {
		return ""
	}
	return strconv.Quote(text)
}
