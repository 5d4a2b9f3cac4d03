// Package awslogin gets the credentials for AWS. Fleets and sources share it.
package awslogin

import (
	"strconv"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Login contains the keys for credentials of AWS. Without them, the SDK searches the environment, the
// shared files and the instance role, as the AWS command line does.
type Login struct {
	// Region is the location of the service, such as "eu-central-1"; empty means AWS_REGION, or the
	// region of the profile or of the instance that hpad runs on.
	Region string `toml:"region"`
	// Profile is the name of a section in AWS's shared configuration files; empty means
	// AWS_PROFILE.
	Profile string `toml:"profile"`
	// CredentialsFile is a shared credentials file, read again when AWS rejects its credentials;
	// empty means AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials.
	CredentialsFile string `toml:"credentials_file"`
	// RoleARN is a role to assume with these credentials; empty means none.
	RoleARN string `toml:"role_arn"`
	// ExternalID is the external id that the role's trust policy requires; may be empty.
	ExternalID string `toml:"external_id" requires:"role_arn"`
}

// Validate returns the errors that the field tags do not cover.
func (l *Login) Validate() []settings.FieldError {
	var errs settings.FieldErrors
	if strings.ContainsAny(l.Region, " \t/.:") {
		errs.Add("region", strconv.Quote(l.Region), `must be the name of a region, such as "eu-central-1"`)
	}
	if l.RoleARN != "" && !strings.HasPrefix(l.RoleARN, "arn:") {
		errs.Add("role_arn", strconv.Quote(l.RoleARN), `must be the ARN of a role, such as "arn:aws:iam::123456789012:role/hpad"`)
	}
	return errs
}
