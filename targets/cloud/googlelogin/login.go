// Package googlelogin gets access tokens of Google Cloud. Fleets and sources share it.
package googlelogin

import (
	"cmp"
	"os"
	"regexp"
	"strconv"

	"github.com/hpad/hpad/settings"
)

// Login contains the keys for access tokens.
type Login struct {
	// UniverseDomain is the domain of a sovereign cloud; empty means
	// GOOGLE_CLOUD_UNIVERSE_DOMAIN, or "googleapis.com".
	UniverseDomain string `toml:"universe_domain"`
	// CredentialsFile is a credentials file of Google Cloud, read again after a change; empty
	// means Application Default Credentials.
	CredentialsFile string `toml:"credentials_file"`
	// Impersonate is the email address of a service account to impersonate; empty uses the
	// credentials directly.
	Impersonate string `toml:"impersonate_service_account"`
}

// DefaultUniverse is the domain of Google's public cloud.
const DefaultUniverse = "googleapis.com"

// SetDefaults sets missing values from the environment or to their defaults.
func (l *Login) SetDefaults() {
	l.UniverseDomain = cmp.Or(l.UniverseDomain, os.Getenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN"), DefaultUniverse)
}

var (
	accountName = regexp.MustCompile(`^[^@\s/]+@[^@\s/]+$`)
	domainName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
)

// Validate returns the errors that the field tags do not cover.
func (l *Login) Validate() []settings.FieldError {
	var errs settings.FieldErrors
	if l.Impersonate != "" && !accountName.MatchString(l.Impersonate) {
		errs.Add("impersonate_service_account", strconv.Quote(l.Impersonate), `must be the email address of a service account, such as "hpad@my-project.iam.gserviceaccount.com"`)
	}
	if l.UniverseDomain != "" && !domainName.MatchString(l.UniverseDomain) {
		errs.Add("universe_domain", strconv.Quote(l.UniverseDomain), `must be a domain, such as "googleapis.com"`)
	}
	return errs
}

// Path returns the path of the credentials file, or "" if there is none.
func (l *Login) Path() string {
	return cmp.Or(l.CredentialsFile, os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"))
}
