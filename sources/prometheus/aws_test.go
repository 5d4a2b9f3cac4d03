//go:build !noaws

package prometheus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/hpad/hpad/settings/secret"
	"github.com/hpad/hpad/targets/cloud/awslogin"
	"github.com/hpad/hpad/test/aws/awstest"
)

// signature returns the Authorization header that AWS's own signer computes for a request, from the
// headers that it names as signed.
func signature(t *testing.T, r *http.Request, body []byte, credentials aws.Credentials) string {
	t.Helper()
	again, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+r.Host+r.URL.String(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	for name := range strings.SplitSeq(names, ";") {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > time.Minute {
		return fmt.Sprintf("X-Amz-Date is %s (%v)", r.Header.Get("X-Amz-Date"), err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, again, hex.EncodeToString(sum[:]), "aps", awstest.Region, at); err != nil {
		t.Fatal(err)
	}
	return again.Header.Get("Authorization")
}

// amp imitates Amazon Managed Service for Prometheus. It accepts the credentials that the returned
// pointer contains.
func amp(t *testing.T) (url string, accepted *aws.Credentials) {
	t.Helper()
	for _, name := range []string{"AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	accepted = new(aws.Credentials)
	reply := recorded(t, "200-sum")
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if want, got := signature(t, r, body, *accepted), r.Header.Get("Authorization"); got != want {
			http.Error(w, `{"message":"The security token included in the request is invalid."}`, http.StatusForbidden)
			return
		}
		if got := r.FormValue("query"); got != "up" || r.FormValue("dedup") != "a b+c" {
			t.Errorf("query = %q with the parameters %v", got, r.Form)
		}
		reply(w, r)
	})
	return server.URL + "/workspaces/ws-0123", accepted
}

// TestSigV4 checks the signature of POST and GET requests, the role, and rotated keys.
func TestSigV4(t *testing.T) {
	url, accepted := amp(t)
	cloud := awstest.New(t)
	t.Setenv("AWS_ENDPOINT_URL_STS", cloud.URL)
	file := filepath.Join(t.TempDir(), "credentials")
	cloud.WriteCredentials(t, file)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		source := newSource(t, url, func(c *Config) {
			c.Method, c.Params = method, map[string]string{"dedup": "a b+c"}
			c.Headers = map[string]string{"X-Team": "shop"}
			c.SigV4 = &awslogin.Login{Region: awstest.Region, CredentialsFile: file}
		})
		*accepted = aws.Credentials{AccessKeyID: "AKIAIMITATED00000001", SecretAccessKey: awstest.Secret}
		query(t, source, "")
		*accepted = aws.Credentials{AccessKeyID: "AKIAIMITATED00000002", SecretAccessKey: awstest.Secret}
		query(t, source, "server returned 403 Forbidden")
	}
	source := newSource(t, url, func(c *Config) {
		c.Params = map[string]string{"dedup": "a b+c"}
		c.SigV4 = &awslogin.Login{
			Region: awstest.Region, CredentialsFile: file,
			RoleARN: "arn:aws:iam::" + awstest.Account + ":role/hpad", ExternalID: "shop",
		}
	})
	*accepted = aws.Credentials{AccessKeyID: "ASIAIMITATED00000001", SecretAccessKey: awstest.Secret, SessionToken: "imitated"}
	query(t, source, "")
}

// TestSigV4Errors checks that an error names the cause of missing credentials, and that the secret key
// is hidden.
func TestSigV4Errors(t *testing.T) {
	url, _ := amp(t)
	cloud := awstest.New(t)
	t.Setenv("AWS_ENDPOINT_URL_STS", cloud.URL)
	login := awslogin.Login{Region: awstest.Region, CredentialsFile: cloud.Credentials(t)}
	for _, test := range []struct {
		name string
		edit func(*awslogin.Login)
		want string
	}{
		{"no file", func(l *awslogin.Login) { l.CredentialsFile = "/nonexistent" }, "get AWS credentials (sigv4): authenticate: "},
		{"no region", func(l *awslogin.Login) { l.Region = "" }, "load the AWS configuration: operation error ec2imds: GetRegion, access disabled to EC2 IMDS"},
		{"unknown profile", func(l *awslogin.Login) { l.Profile = "shop" }, "get AWS credentials (sigv4): load the AWS configuration: "},
		{"denied role", func(l *awslogin.Login) { l.RoleARN = "arn:aws:iam::1:role/other" }, "is not authorized to perform: sts:AssumeRole"},
	} {
		t.Run(test.name, func(t *testing.T) {
			edited := login
			test.edit(&edited)
			query(t, newSource(t, url, func(c *Config) { c.SigV4 = &edited }), test.want)
		})
	}
	file := write(t, filepath.Join(t.TempDir(), "credentials"), []byte("[default]\naws_access_key_id = AKIA1\naws_secret_access_key = Secret/Key+of+AWS1\n"))
	query(t, newSource(t, url, func(c *Config) { c.SigV4 = &awslogin.Login{Region: awstest.Region, CredentialsFile: file} }), "403 Forbidden")
	if shown := secret.Hide("key Secret/Key+of+AWS1"); shown != "key "+secret.Mark {
		t.Errorf("the secret key is shown as %s", shown)
	}
}
