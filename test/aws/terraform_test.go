package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/aws/awstest"
)

// providers are where Terraform's providers may lie on this machine: Terraform is
// not let fetch any.
var providers = []string{os.Getenv("HPAD_TEST_TERRAFORM_PLUGINS"), "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins", "/opt/tf-plugins"}

// providerDir returns the directory of providers that has the one of AWS; "" when
// none has.
func providerDir() string {
	for _, dir := range providers {
		if found, _ := filepath.Glob(filepath.Join(dir, "registry.terraform.io", "hashicorp", "aws", "*", "*")); dir != "" && len(found) > 0 {
			return dir
		}
	}
	return ""
}

// TestTerraform has Terraform's provider of AWS, which others made, read groups and
// instances of the imitation.
func TestTerraform(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("there is no terraform command to be a second client")
	}
	plugins := providerDir()
	if plugins == "" {
		t.Skipf("Terraform's provider hashicorp/aws is in none of %q to be a second client", providers)
	}
	cloud := awstest.New(t)
	for _, name := range []string{"db", "web"} {
		cloud.Add(awstest.Group{Name: name, Min: 1, Max: 5, Desired: 2})
	}
	cloud.Edit("web", func(g *awstest.Group) { g.Max, g.Desired = 7, 3 })
	dir := t.TempDir()
	text := fmt.Sprintf(`
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
provider "aws" {
  region                      = %q
  shared_credentials_files    = [%q]
  shared_config_files         = []
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  endpoints {
    autoscaling = %q
    ec2         = %q
    sts         = %q
  }
}
data "aws_autoscaling_groups" "all" {}
data "aws_autoscaling_group" "web" { name = "web" }
data "aws_caller_identity" "me" {}
output "names" { value = data.aws_autoscaling_groups.all.names }
output "web" { value = data.aws_autoscaling_group.web }
output "account" { value = data.aws_caller_identity.me.account_id }
`, awstest.Region, cloud.Credentials(t), cloud.URL, cloud.URL, cloud.URL)
	settings := filepath.Join(dir, "settings")
	for path, text := range map[string]string{filepath.Join(dir, "main.tf"): text, settings: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(arguments ...string) []byte {
		t.Helper()
		command := exec.CommandContext(t.Context(), "terraform", append([]string{"-chdir=" + dir}, arguments...)...)
		command.Env = append(slices.DeleteFunc(command.Environ(), awsVariable),
			"CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "AWS_EC2_METADATA_DISABLED=true", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
			"TF_CLI_CONFIG_FILE="+settings)
		output, err := command.Output()
		if err != nil {
			var said []byte
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				said = exit.Stderr
			}
			t.Fatalf("terraform %v: %v\n%s\n%s", arguments, err, output, said)
		}
		return output
	}
	run("init", "-input=false", "-no-color", "-plugin-dir="+plugins)
	run("apply", "-input=false", "-no-color", "-auto-approve")
	var read struct {
		Names   struct{ Value []string }
		Account struct{ Value string }
		Web     struct {
			Value struct {
				Name     string
				Desired  int `json:"desired_capacity"`
				Min      int `json:"min_size"`
				Max      int `json:"max_size"`
				Status   string
				Zones    []string `json:"availability_zones"`
				Resource string   `json:"arn"`
			}
		}
	}
	if err := json.Unmarshal(run("output", "-json"), &read); err != nil {
		t.Fatal(err)
	}
	slices.Sort(read.Names.Value)
	if !slices.Equal(read.Names.Value, []string{"db", "web"}) || read.Account.Value != awstest.Account {
		t.Errorf("groups %v of account %s, want db and web of %s", read.Names.Value, read.Account.Value, awstest.Account)
	}
	if web := read.Web.Value; web.Name != "web" || web.Desired != 3 || web.Min != 1 || web.Max != 7 || web.Status != "" || web.Resource == "" {
		t.Errorf("group %+v", web)
	}
}

// awsVariable says that an environment variable is one of AWS's.
func awsVariable(pair string) bool { return strings.HasPrefix(pair, "AWS_") }
