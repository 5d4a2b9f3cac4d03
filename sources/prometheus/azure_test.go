//go:build !noazure

package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hpad/hpad/targets/cloud/azurelogin"
	"github.com/hpad/hpad/test/azure/azuretest"
)

// TestEntra checks access tokens for a client secret, the error of a rejected client, and a managed
// identity.
func TestEntra(t *testing.T) {
	for _, name := range []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_AUTHORITY_HOST"} {
		t.Setenv(name, "")
	}
	current := "Bearer token-1"
	server := authorized(t, &current)
	entra := azuretest.New(t)
	client := func(c *Config) {
		c.AzureAD = &azureAD{Login: azurelogin.Login{
			Cloud: azurelogin.PublicCloud, AuthorityHost: entra.URL, DisableInstanceDiscovery: true, CAFile: entra.CAFile,
			Tenant: azuretest.Tenant, Client: azuretest.Client, ClientSecretFile: entra.SecretFile,
		}}
	}
	source := newSource(t, server.URL, client)
	query(t, source, "")
	query(t, source, "")
	if calls := entra.Calls("token"); calls != 1 {
		t.Errorf("%d token requests, want 1", calls)
	}
	current = "Bearer token-2"
	query(t, source, "401 Unauthorized") // the token is new
	query(t, newSource(t, server.URL, client), "")

	entra.Refuse(true)
	query(t, newSource(t, server.URL, client), "get an access token of Microsoft Entra ID (azuread): authenticate: azure returned 401: "+
		"invalid_client: AADSTS7000222: The provided client secret keys for app '"+azuretest.Client+"' are expired.")

	identity := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query(); got.Get("resource") != "https://prometheus.monitor.azure.com" || got.Get("client_id") != "identity-1" {
			t.Errorf("request of a managed identity = %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": "token-of-identity", "expires_on": fmt.Sprint(time.Now().Add(time.Hour).Unix()), "resource": "r", "token_type": "Bearer",
		})
	})
	t.Setenv("IDENTITY_ENDPOINT", identity.URL)
	t.Setenv("IDENTITY_HEADER", "header")
	current = "Bearer token-of-identity"
	query(t, newSource(t, server.URL, func(c *Config) {
		c.AzureAD = &azureAD{Login: azurelogin.Login{Cloud: azurelogin.PublicCloud, Client: "identity-1"}}
	}), "")
}
