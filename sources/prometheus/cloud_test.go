package prometheus

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets/cloud/awslogin"
	"github.com/hpad/hpad/targets/cloud/azurelogin"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
)

// TestCloudLogins checks the errors of logins, also of those that this build omits.
func TestCloudLogins(t *testing.T) {
	before := maps.Clone(builders)
	t.Cleanup(func() { builders = before })
	for key := range tags {
		builders[key] = func(*Config) *httpclient.Login { return nil }
	}
	messages := func(edit func(*Config)) (texts []string) {
		c := &Config{URL: "http://127.0.0.1:9090"}
		edit(c)
		c.SetDefaults()
		for _, e := range c.Validate() {
			texts = append(texts, e.Error())
		}
		slices.Sort(texts)
		return texts
	}
	for _, test := range []struct {
		name string
		edit func(*Config)
		want []string
	}{
		{"valid", func(c *Config) { c.SigV4 = new(awslogin.Login) }, nil},
		{"two logins", func(c *Config) { c.SigV4, c.AzureAD, c.TokenFile = new(awslogin.Login), new(azureAD), "token" }, []string{
			"azuread: cannot be combined with token_file; keep one of them",
			"sigv4: cannot be combined with token_file; keep one of them",
		}},
		{"AWS", func(c *Config) { c.SigV4 = &awslogin.Login{Region: "eu/1", RoleARN: "hpad"} }, []string{
			`sigv4.region = "eu/1": must be the name of a region, such as "eu-central-1"`,
			`sigv4.role_arn = "hpad": must be the ARN of a role, such as "arn:aws:iam::123456789012:role/hpad"`,
		}},
		{"Azure", func(c *Config) {
			c.AzureAD = &azureAD{Login: azurelogin.Login{AuthorityHost: "http://login", ClientSecretFile: "secret", Client: "x"}}
		}, []string{
			`azuread.authority_host = "http://login": must be an https URL without credentials, such as "https://management.example.com"`,
			"azuread.tenant_id: is required with client_secret_file",
		}},
		{"Google", func(c *Config) { c.GoogleIAM = &googlelogin.Login{Impersonate: "hpad"} }, []string{
			`google_iam.impersonate_service_account = "hpad": must be the email address of a service account, such as "hpad@my-project.iam.gserviceaccount.com"`,
		}},
	} {
		if diff := cmp.Diff(test.want, messages(test.edit)); diff != "" {
			t.Errorf("%s: Validate (-want +got):\n%s", test.name, diff)
		}
	}
	delete(builders, sigV4Key)
	want := []string{"sigv4: is not part of this build of hpad (tag noaws)"}
	if diff := cmp.Diff(want, messages(func(c *Config) { c.SigV4 = new(awslogin.Login) })); diff != "" {
		t.Errorf("Validate without AWS (-want +got):\n%s", diff)
	}
}
