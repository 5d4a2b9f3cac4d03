package prometheus

import (
	"fmt"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets/cloud/awslogin"
	"github.com/hpad/hpad/targets/cloud/azurelogin"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
)

// cloudLogins contains the logins for managed services. At most one is set.
type cloudLogins struct {
	// SigV4 signs requests with credentials of AWS, as Amazon Managed Service for Prometheus requires;
	// an empty table uses AWS's default credentials.
	SigV4 *awslogin.Login `toml:"sigv4" excludes:"basic_auth token_file oauth2 azuread google_iam"`
	// AzureAD sends access tokens of Microsoft Entra ID, as Azure Monitor requires; an empty table uses
	// Azure's default credentials.
	AzureAD *azureAD `toml:"azuread" excludes:"basic_auth token_file oauth2 google_iam"`
	// GoogleIAM sends access tokens of Google Cloud, as Managed Service for Prometheus requires; an empty
	// table uses Application Default Credentials.
	GoogleIAM *googlelogin.Login `toml:"google_iam" excludes:"basic_auth token_file oauth2"`
}

type azureAD struct {
	azurelogin.Login
	// Scope is the scope of access tokens. If it is empty, it is the query API of Azure Monitor in Cloud.
	Scope string `toml:"scope"`
}

// monitorScopes maps the values of Login.Cloud to the scope of Azure Monitor.
var monitorScopes = map[string]string{
	azurelogin.PublicCloud:     "https://prometheus.monitor.azure.com/.default",
	azurelogin.GovernmentCloud: "https://prometheus.monitor.azure.us/.default",
	azurelogin.ChinaCloud:      "https://prometheus.monitor.azure.cn/.default",
}

// The keys of cloudLogins.
const (
	sigV4Key     = "sigv4"
	azureADKey   = "azuread"
	googleIAMKey = "google_iam"
)

// builders maps the keys of cloudLogins to functions that build the login. Files with build tags add
// them. tags maps the keys to the tags that omit them.
var builders = map[string]func(*Config) *httpclient.Login{}

var tags = map[string]string{sigV4Key: "noaws", azureADKey: "noazure", googleIAMKey: "nogce"}

// table returns the key and the first table that is set, or "".
func (c *cloudLogins) table() (key string, table interface{ Validate() []settings.FieldError }) {
	switch {
	case c.SigV4 != nil:
		return sigV4Key, c.SigV4
	case c.AzureAD != nil:
		return azureADKey, c.AzureAD
	case c.GoogleIAM != nil:
		return googleIAMKey, c.GoogleIAM
	}
	return "", nil
}

func (c *cloudLogins) setDefaults() {
	if c.AzureAD != nil {
		c.AzureAD.SetDefaults()
	}
	if c.GoogleIAM != nil {
		c.GoogleIAM.SetDefaults()
	}
}

// validate returns the errors that the field tags do not cover, and an error for a login that is not
// part of this build.
func (c *cloudLogins) validate() (errs []settings.FieldError) {
	key, table := c.table()
	if key == "" {
		return nil
	}
	if builders[key] == nil {
		errs = append(errs, settings.FieldError{Field: key, Detail: fmt.Sprintf("is not part of this build of hpad (tag %s)", tags[key])})
	}
	for _, e := range table.Validate() {
		e.Field = key + "." + e.Field
		errs = append(errs, e)
	}
	return errs
}

// login returns the configured login, or nil if there is none.
func (c *Config) login() *httpclient.Login {
	if key, _ := c.table(); key != "" {
		return builders[key](c)
	}
	return nil
}
