//go:build !noaws

package prometheus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/settings/secret"
	"github.com/hpad/hpad/targets/cloud/awslogin"
)

func init() { builders[sigV4Key] = signing }

// signedService is AWS's name of Amazon Managed Service for Prometheus in signatures.
const signedService = "aps"

// signing returns a login that gets credentials with AWS's credential chain, and signs requests.
func signing(c *Config) *httpclient.Login {
	return &httpclient.Login{Purpose: "get AWS credentials (sigv4)", Get: func(ctx context.Context) (httpclient.Credentials, error) {
		loaded, client, err := awslogin.Load(ctx, c.SigV4, c.Timeout, "")
		if err != nil {
			return httpclient.Credentials{}, err
		}
		defer client.CloseIdleConnections()
		found, err := loaded.Credentials.Retrieve(ctx)
		if err != nil {
			return httpclient.Credentials{}, err
		}
		secret.Keep(found.SecretAccessKey)
		secret.Keep(found.SessionToken)
		made := httpclient.Credentials{Authorize: func(r *http.Request) error { return sign(r, found, loaded.Region) }}
		if found.CanExpire {
			made.Expires = found.Expires
		}
		return made, nil
	}}
}

var signer = v4.NewSigner()

// sign adds a signature of a request and its body, which it reads.
func sign(r *http.Request, credentials aws.Credentials, region string) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	// The signature must not contain the header that do sets for the transport, because it is not sent.
	if _, marked := r.Header[idempotencyKey]; marked {
		delete(r.Header, idempotencyKey)
		defer func() { r.Header[idempotencyKey] = nil }()
	}
	sum := sha256.Sum256(body)
	return signer.SignHTTP(r.Context(), credentials, r, hex.EncodeToString(sum[:]), signedService, region, time.Now())
}
