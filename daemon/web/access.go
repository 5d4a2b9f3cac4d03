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

// Errors of Identify.
var (
	// ErrNobodyAsked means that the web config asks nobody who they are.
	ErrNobodyAsked = errors.New("the web config asks nobody who they are: it has neither basic_auth_users nor client certificates that are verified")
	// ErrAnonymous means that the web config knows clients, and this one did not
	// say who it is.
	ErrAnonymous = errors.New("the client did not say who it is: it showed no certificate")
)

// usersKey is the context key under which a request is marked where the web config
// had users when it came in.
type usersKey struct{}

// markUsers marks requests where the web config has users, before the
// toolkit looks at it.
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

// Identify returns who asks, as the web config at path stands: the name of a user who
// gave the password, or that of a certificate which the named authority signed: its
// common name, or else the first of its other names. The request has to come through
// [Serve], which lets no wrong password and no wrong certificate get here. The
// error is ErrNobodyAsked, ErrAnonymous, or why the file cannot be read.
//
// The file may change at any time, and the toolkit goes by what it says at each
// request. Users count only if they were there before and after the toolkit
// looked.
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
		return "", ErrNobodyAsked
	}
	return "", ErrAnonymous
}

// certificateName returns the name of a client's certificate.
func certificateName(c *x509.Certificate) string {
	names := slices.Concat([]string{c.Subject.CommonName}, c.DNSNames, c.EmailAddresses)
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	return cmp.Or(names...)
}

// Users returns the names of the users in the web config at path, in order, and whether
// clients may show certificates instead. A file that cannot be read has neither: it is
// Check's to say so.
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

// IsExposed reports whether passwords go to the server of the web config at path
// without TLS, for everybody on the way to read.
func IsExposed(path string) bool {
	c, err := read(path)
	return err == nil && len(c.Users) > 0 && !c.TLSConfig.IsEnabled()
}
