package web

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// The errors of Identify.
var (
	// errNoAuthentication means that the web config does not authenticate clients.
	errNoAuthentication = errors.New("the web config does not authenticate clients: it has neither basic_auth_users nor verified client certificates")
	// errAnonymous means that the client is not authenticated, although the web config supports it.
	errAnonymous = errors.New("the client is not authenticated: it has no certificate")
)

// usersKey is the context key that marks requests received while the web config had users.
type usersKey struct{}

// markUsers sets usersKey before the toolkit reads the web config.
func markUsers(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			if c, err := read(path); err == nil && len(c.Users) > 0 {
				r = r.WithContext(context.WithValue(r.Context(), usersKey{}, true))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Identify returns the name of an authenticated client: the user name, or the common name or first
// alternative name in a certificate issued by a CA in client_ca_file. The request must come
// through [Serve], which rejects wrong passwords and certificates. The error is
// ErrNoAuthentication, ErrAnonymous, or the error from reading the file.
//
// The toolkit reads the file at each request, so the file can change before Identify reads it.
// Identify accepts a user only if the file contained users both before and after the toolkit read
// it.
func Identify(path string, r *http.Request) (string, error) {
	c, err := read(path)
	if err != nil {
		return "", fmt.Errorf("web config %q: %w", path, scrub(err))
	}
	before, _ := r.Context().Value(usersKey{}).(bool)
	user, _, named := r.BasicAuth()
	switch {
	case len(c.Users) > 0 && before && named:
		return user, nil
	case hasClientCA(c.TLSConfig) && r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		return certificateName(r.TLS.VerifiedChains[0][0]), nil
	case len(c.Users) == 0 && !verifies(c.TLSConfig.ClientAuth):
		return "", errNoAuthentication
	}
	return "", errAnonymous
}

func certificateName(c *x509.Certificate) string {
	names := slices.Concat([]string{c.Subject.CommonName}, c.DNSNames, c.EmailAddresses)
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	return cmp.Or(names...)
}

// Users returns the sorted user names in the web config at path, and whether it accepts client
// certificates. If the file is unreadable, it returns nil and false; see [Check].
func Users(path string) (users []string, certificates bool) {
	c, err := read(path)
	if err != nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(c.Users)), hasClientCA(c.TLSConfig)
}

func verifies(clientAuth string) bool {
	return clientAuth == requireAndVerify || clientAuth == verifyIfGiven
}

// IsExposed reports whether the web config at path defines users but no TLS.
func IsExposed(path string) bool {
	c, err := read(path)
	return err == nil && len(c.Users) > 0 && !c.TLSConfig.IsEnabled()
}
