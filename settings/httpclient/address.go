package httpclient

import (
	"net/url"
	"strconv"
	"strings"
)

// Address says which addresses a key takes of those with http or https.
type Address struct {
	// Form is what a mistake says of a text that is none.
	Form string
	// Credentials are the keys to use instead of credentials in an address, which it
	// must not hold; empty where there are none.
	Credentials string
	// End is what a mistake says of an address with more than a path; empty where it
	// may have more.
	End string
}

// Check returns what is wrong with an address; "" when nothing is.
func (a Address) Check(text string) string {
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return a.Form
	case address.User != nil && a.Credentials == "":
		return "must not hold credentials"
	case address.User != nil:
		return "must not hold credentials: use " + a.Credentials
	case address.Scheme != "http" && address.Scheme != "https", address.Hostname() == "":
		return a.Form
	case address.RawQuery != "" || address.ForceQuery || address.Fragment != "":
		return a.End
	}
	return ""
}

// QuoteAddress returns how a mistaken address is shown; "" where it may hold a secret.
func QuoteAddress(text string) string {
	if strings.ContainsAny(text, "@?") {
		return ""
	}
	return strconv.Quote(text)
}
