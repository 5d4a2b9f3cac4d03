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

// For returns a client like c of one member of a cluster that asks another one.
func (c *Client) For(member string) *Client {
	asking := *c
	asking.member = member
	return &asking
}

// Warning returns a client like c that calls tell with what the data of an answer lack, as
// the history of a member of a cluster that does not answer.
func (c *Client) Warning(tell func(text string)) *Client {
	warning := *c
	warning.warn = tell
	return &warning
}

// Cleaning returns a client like c that applies clean to every string of a response, for
// output that people read.
func (c *Client) Cleaning(clean func(string) string) *Client {
	cleaning := *c
	cleaning.clean = clean
	return &cleaning
}

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
