package aws

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/internal/guide"
	"github.com/hpad/hpad/test/internal/program"
)

// TestStart runs the commands in docs/start-aws.md.
func TestStart(t *testing.T) {
	t.Parallel()
	c := awstest.New(t)
	c.Add(awstest.Group{Name: "worker", Max: 5, Desired: 1, Boot: time.Second, Stop: time.Second})
	replace := guide.Own(t)
	replace["/home/me/.aws/credentials"] = c.Credentials(t)
	region := fmt.Sprintf("region = %q", awstest.Region)
	replace[region] = fmt.Sprintf("%s\nendpoints = { auto_scaling = %q, ec2 = %q, sts = %q }", region, c.URL, c.URL, c.URL)
	output := guide.Run(t, &guide.Page{
		Path: "../../docs/start-aws.md", Replace: replace,
		Environment: []string{"PATH=" + filepath.Dir(program.Binary(t)) + ":" + os.Getenv("PATH")},
	})
	guide.WantScaling(t, output["hpad history worker"])
}
