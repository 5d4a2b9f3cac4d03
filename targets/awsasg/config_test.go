package awsasg

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"defaults", func(*Config) {}, ""},
		{"everything", func(c *Config) {
			c.Region, c.RoleARN, c.ExternalID = "eu-central-1", "arn:aws:iam::123456789012:role/hpad", "shop"
			c.Endpoints = Endpoints{AutoScaling: "https://autoscaling.internal:8443/aws", EC2: "http://127.0.0.1:1", STS: "https://sts.internal"}
			c.NativeAutoscaler, c.ReadsPerSecond = nativeIgnore, 0.5
		}, ""},
		{"region", func(c *Config) { c.Region = "eu central" }, "region"},
		{"role", func(c *Config) { c.RoleARN = "hpad" }, "role_arn"},
		{"external id without a role", func(c *Config) { c.ExternalID = "shop" }, "role_arn"},
		{"endpoint", func(c *Config) { c.Endpoints.EC2 = "127.0.0.1:80" }, "endpoints.ec2"},
		{"endpoint with credentials", func(c *Config) { c.Endpoints.STS = "https://me:secret@sts" }, "endpoints.sts"},
		{"endpoint with another scheme", func(c *Config) { c.Endpoints.EC2 = "ftp://ec2" }, "endpoints.ec2"},
		{"endpoint without a host", func(c *Config) { c.Endpoints.EC2 = "https://:443" }, "endpoints.ec2"},
		{"endpoint with a query", func(c *Config) { c.Endpoints.EC2 = "https://ec2?a=b" }, "endpoints.ec2"},
		{"endpoint with a fragment", func(c *Config) { c.Endpoints.EC2 = "https://ec2#a" }, "endpoints.ec2"},
		{"timeout", func(c *Config) { c.Timeout = -time.Second }, "timeout"},
		{"reads", func(c *Config) { c.ReadsPerSecond = -1 }, "reads_per_second"},
		{"writes", func(c *Config) { c.WritesPerSecond = 1001 }, "writes_per_second"},
		{"native", func(c *Config) { c.NativeAutoscaler = "fight" }, "native_autoscaler"},
		{"interval", func(c *Config) { c.CheckInterval = time.Millisecond }, "check_interval"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := &Config{}
			c.change(config)
			config.SetDefaults()
			errs := config.Validate()
			var fields []string
			for _, fieldErr := range errs {
				fields = append(fields, fieldErr.Field)
				if strings.Contains(fieldErr.Value+fieldErr.Detail, "secret") {
					t.Errorf("error %+v contains a secret", fieldErr)
				}
			}
			if got := strings.Join(fields, " "); got != c.want {
				t.Errorf("errors = %+v, want %q", errs, c.want)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		group string
		valid bool
	}{
		{"web", true},
		{"Web servers/blue_#1 (eu)", true},
		{strings.Repeat("x", 255), true},
		{"", false},
		{" !~", true},
		{"\x7f", false},
		{"a:b", false},
		{"größe", false},
		{"line\n", false},
		{strings.Repeat("x", 256), false},
	} {
		target := &Target{Group: c.group}
		if errs := target.Validate(); (errs == nil) != c.valid {
			t.Errorf("group %q: %v", c.group, errs)
		}
		if target.Name() != c.group {
			t.Errorf("Name() = %q, want %q", target.Name(), c.group)
		}
	}
}
