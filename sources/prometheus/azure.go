//go:build !noazure

package prometheus

import (
	"cmp"
	"context"

	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets/cloud/azurelogin"
)

func init() { builders[azureADKey] = entra }

// entra returns a login that gets access tokens of Microsoft Entra ID.
func entra(c *Config) *httpclient.Login {
	return &httpclient.Login{Purpose: "get an access token of Microsoft Entra ID (azuread)", Get: func(ctx context.Context) (httpclient.Credentials, error) {
		options, transport, err := azurelogin.ClientOptions(&c.AzureAD.Login, c.Timeout, 1)
		if err != nil {
			return httpclient.Credentials{}, err
		}
		defer transport.CloseIdleConnections()
		credential, err := azurelogin.Credential(&c.AzureAD.Login, options)
		if err != nil {
			return httpclient.Credentials{}, err
		}
		scope := cmp.Or(c.AzureAD.Scope, monitorScopes[c.AzureAD.Cloud])
		token, err := credential.GetToken(ctx, azpolicy.TokenRequestOptions{Scopes: []string{scope}})
		if err != nil {
			return httpclient.Credentials{}, err
		}
		return httpclient.Bearer(token.Token, token.ExpiresOn), nil
	}}
}
