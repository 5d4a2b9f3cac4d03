// Package azurelogin gets access tokens of Microsoft Entra ID. Fleets and sources share it.
package azurelogin

import (
	"cmp"
	"os"
	"strings"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
)

// The public and sovereign clouds: the values of Login.Cloud.
const (
	PublicCloud     = "public"
	GovernmentCloud = "usgovernment"
	ChinaCloud      = "china"
)

// Login contains the keys for access tokens. The defaults come from the environment variables of Azure's
// SDKs.
type Login struct {
	// Cloud is "public", "usgovernment" or "china"; empty means "public".
	Cloud string `toml:"cloud" default:"public" values:"public usgovernment china" must:"one of \"public\", \"usgovernment\", \"china\""`
	// AuthorityHost is the address of Microsoft Entra ID, https; empty means
	// AZURE_AUTHORITY_HOST, or the address in Cloud.
	AuthorityHost string `toml:"authority_host"`
	// DisableInstanceDiscovery disables the validation of AuthorityHost by Microsoft, as private
	// clouds require.
	DisableInstanceDiscovery bool `toml:"disable_instance_discovery"`
	// CAFile is the path of a file with the trusted CA certificates in PEM format; empty means the
	// system's CAs.
	CAFile string `toml:"ca_file"`

	// Tenant and Client are the ids of hpad's tenant and client; empty means AZURE_TENANT_ID and
	// AZURE_CLIENT_ID. If none of the following files is set, hpad uses the SDK's default
	// credential chain, or, if only Client is configured, the managed identity with that client id.
	Tenant string `toml:"tenant_id"`
	Client string `toml:"client_id"`
	// ClientSecretFile is a file with the client's secret, read again after a change.
	ClientSecretFile string `toml:"client_secret_file" requires:"tenant_id client_id" excludes:"client_certificate_file federated_token_file"`
	// ClientCertificateFile is a file with the client's certificate and key, PEM or PKCS#12
	// without a password, read again after a change.
	ClientCertificateFile string `toml:"client_certificate_file" requires:"tenant_id client_id" excludes:"federated_token_file"`
	// FederatedTokenFile is a file with a token from a different identity provider (workload
	// identity).
	FederatedTokenFile string `toml:"federated_token_file" requires:"tenant_id client_id"`

	// identity reports whether Client is configured and Tenant is not.
	identity bool
}

// SetDefaults sets missing values from the environment.
func (l *Login) SetDefaults() {
	l.identity = l.Client != "" && l.Tenant == ""
	l.AuthorityHost = cmp.Or(l.AuthorityHost, os.Getenv("AZURE_AUTHORITY_HOST"))
	l.Tenant = cmp.Or(l.Tenant, os.Getenv("AZURE_TENANT_ID"))
	l.Client = cmp.Or(l.Client, os.Getenv("AZURE_CLIENT_ID"))
}

// Validate returns the errors that the field tags do not cover.
func (l *Login) Validate() []settings.FieldError {
	if detail := CheckHTTPS(l.AuthorityHost); l.AuthorityHost != "" && detail != "" {
		return []settings.FieldError{{Field: "authority_host", Value: httpclient.QuoteAddress(l.AuthorityHost), Detail: detail}}
	}
	return nil
}

// CheckHTTPS returns the error for a text that is not an https URL without credentials, query or
// fragment, or "".
func CheckHTTPS(text string) string {
	const form = `must be an https URL without credentials, such as "https://management.example.com"`
	detail := httpclient.Address{Form: form, End: form}.Check(text)
	if detail == "" && !strings.HasPrefix(text, "https:") {
		return form
	}
	return detail
}
