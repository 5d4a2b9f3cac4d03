//go:build !nogce

package prometheus

import (
	"testing"

	"github.com/hpad/hpad/targets/cloud/googlelogin"
	"github.com/hpad/hpad/test/gce/gcetest"
)

// TestGoogle checks access tokens for a credentials file and for the default credentials, and the error
// of a rejected service account.
func TestGoogle(t *testing.T) {
	current := "Bearer ya29.1"
	server := authorized(t, &current)
	google := gcetest.Start(t)
	file := google.CredentialsFile(t)
	source := newSource(t, server.URL, func(c *Config) { c.GoogleIAM = &googlelogin.Login{CredentialsFile: file} })
	query(t, source, "")
	query(t, source, "")

	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	current = "Bearer ya29.2"
	query(t, newSource(t, server.URL, func(c *Config) { c.GoogleIAM = new(googlelogin.Login) }), "")

	google.ExpireCredentials(true)
	query(t, newSource(t, server.URL, func(c *Config) { c.GoogleIAM = new(googlelogin.Login) }),
		"get an access token of Google Cloud (google_iam): authenticate: ")
	query(t, newSource(t, server.URL, func(c *Config) { c.GoogleIAM = &googlelogin.Login{CredentialsFile: "/nonexistent"} }),
		"get an access token of Google Cloud (google_iam): find credentials: read credentials_file: open /nonexistent")
}
