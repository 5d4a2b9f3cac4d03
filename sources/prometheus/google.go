//go:build !nogce

package prometheus

import (
	"context"
	"net/http"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
)

func init() { builders[googleIAMKey] = google }

// google returns a login that gets access tokens of Google Cloud.
func google(c *Config) *httpclient.Login {
	return &httpclient.Login{Purpose: "get an access token of Google Cloud (google_iam)", Get: func(ctx context.Context) (httpclient.Credentials, error) {
		transport := cloud.NewTransport(c.Timeout, 1)
		defer transport.CloseIdleConnections()
		found, err := googlelogin.Find(c.GoogleIAM, &http.Client{Transport: transport, Timeout: c.Timeout})
		if err != nil {
			return httpclient.Credentials{}, err
		}
		token, err := found.Token(ctx)
		if err != nil {
			return httpclient.Credentials{}, googlelogin.Explain(err)
		}
		return httpclient.Bearer(token.Value, token.Expiry), nil
	}}
}
