package httpclient

import (
	"testing"

	"github.com/hpad/hpad/settings"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/config"
)

func messages(errs []settings.FieldError) []string {
	var all []string
	for _, fieldErr := range errs {
		all = append(all, fieldErr.Error())
	}
	return all
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name   string
		access Access
		want   []string
	}{
		{"nothing", Access{}, nil},
		{"everything", Access{
			BasicAuth: &BasicAuth{Username: "hpad", PasswordFile: "/run/password"}, Headers: map[string]string{"X-Team": "shop"},
			TLS: TLS{CAFile: "ca", CertFile: "cert", KeyFile: "key"},
		}, nil},
		{"all errors", Access{
			BasicAuth: &BasicAuth{PasswordFile: "p"}, TokenFile: "t", Headers: map[string]string{"Host": "x"}, TLS: TLS{CertFile: "cert"},
		}, []string{
			"basic_auth.username: is required: the name of the user",
			"token_file: cannot be combined with basic_auth; keep one of them",
			"tls.key_file: is required with cert_file",
			"headers.Host: must not be set: it is reserved for the connection",
		}},
		{"a key without a certificate", Access{TLS: TLS{KeyFile: "key"}}, []string{"tls.cert_file: is required with key_file"}},
	} {
		if diff := cmp.Diff(test.want, messages(append(settings.Validate(&test.access), test.access.Validate()...))); diff != "" {
			t.Errorf("%s: Validate (-want +got):\n%s", test.name, diff)
		}
	}
	var none *TLS
	if errs := none.Validate(); errs != nil {
		t.Errorf("Validate() of a nil TLS = %v, want no errors", errs)
	}
}

func TestValidateHeaders(t *testing.T) {
	headers := map[string]string{
		"authorization": "Bearer secret", "content-type": "x", "Host": "x", "": "x", "X-Lines": "a\nsecret",
		"X Y": "x", "X:Y": "x", "X-Ümlaut": "x", "X-Tab": "a\tb", "X_y.z~1": "x",
	}
	want := []string{
		"extra.: is not a valid header name: use letters, digits and hyphens",
		"extra.Host: must not be set: it is reserved for the connection",
		"extra.X Y: is not a valid header name: use letters, digits and hyphens",
		"extra.X-Lines: must not contain control characters such as line ends",
		"extra.X-Ümlaut: is not a valid header name: use letters, digits and hyphens",
		"extra.X:Y: is not a valid header name: use letters, digits and hyphens",
		"extra.authorization: must not be set here: use basic_auth, token_file or oauth2",
		"extra.content-type: must not be set: it is reserved for the connection",
	}
	if diff := cmp.Diff(want, messages(ValidateHeaders("extra", headers))); diff != "" {
		t.Errorf("ValidateHeaders (-want +got):\n%s", diff)
	}
}

func TestClientConfig(t *testing.T) {
	access := Access{
		BasicAuth: &BasicAuth{Username: "hpad", PasswordFile: "/run/password"}, Headers: map[string]string{"X-Team": "shop"},
		TLS: TLS{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "name", InsecureSkipVerify: true},
	}
	got := access.ClientConfig()
	if !got.EnableHTTP2 || got.FollowRedirects || !got.ProxyFromEnvironment {
		t.Errorf("HTTP/2 = %t, redirects = %t, proxies = %t, want true, false, true", got.EnableHTTP2, got.FollowRedirects, got.ProxyFromEnvironment)
	}
	if diff := cmp.Diff(&config.BasicAuth{Username: "hpad", PasswordRef: "/run/password"}, got.BasicAuth); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.TLSConfig{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "name", InsecureSkipVerify: true}, got.TLSConfig); diff != "" {
		t.Errorf("TLS (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]config.Header{"X-Team": {Values: []string{"shop"}}}, got.HTTPHeaders.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	token := Access{TokenFile: "/run/token"}.ClientConfig()
	if diff := cmp.Diff(&config.Authorization{Type: "Bearer", CredentialsRef: "/run/token"}, token.Authorization); diff != "" {
		t.Errorf("ClientConfig with a token (-want +got):\n%s", diff)
	}
	if err := token.Validate(); err != nil {
		t.Errorf("the library rejected the configuration: %v", err)
	}
}
