package api

import (
	"net/http"
	"slices"
)

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
