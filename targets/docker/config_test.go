package docker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
)

// clearEnvironment removes the variables of the Docker command line.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"} {
		t.Setenv(name, "")
	}
}

func TestDefaults(t *testing.T) {
	plain := Config{Host: defaultHost, Timeout: 10 * time.Second, ResourceInterval: 15 * time.Second}
	certs := &httpclient.TLS{CAFile: "/certs/ca.pem", CertFile: "/certs/cert.pem", KeyFile: "/certs/key.pem"}
	unverified := *certs
	unverified.InsecureSkipVerify = true
	home := &httpclient.TLS{CAFile: "/home/me/.docker/ca.pem", CertFile: "/home/me/.docker/cert.pem", KeyFile: "/home/me/.docker/key.pem"}
	for _, test := range []struct {
		name        string
		environment map[string]string
		given       Config
		want        func(c *Config)
	}{
		{"nothing", nil, Config{}, func(*Config) {}},
		{"host", map[string]string{"DOCKER_HOST": "tcp://192.0.2.1:2375"}, Config{}, func(c *Config) { c.Host = "tcp://192.0.2.1:2375" }},
		{"own host", map[string]string{"DOCKER_HOST": "tcp://192.0.2.1:2375"}, Config{Host: "unix:///own"}, func(c *Config) { c.Host = "unix:///own" }},
		{"version", map[string]string{"DOCKER_API_VERSION": "1.43"}, Config{}, func(c *Config) { c.APIVersion = "1.43" }},
		{"own version", map[string]string{"DOCKER_API_VERSION": "1.43"}, Config{APIVersion: "1.45"}, func(c *Config) { c.APIVersion = "1.45" }},
		{"certificates and verification", map[string]string{"DOCKER_CERT_PATH": "/certs", "DOCKER_TLS_VERIFY": "1"}, Config{}, func(c *Config) { c.TLS = certs }},
		{"certificates", map[string]string{"DOCKER_CERT_PATH": "/certs"}, Config{}, func(c *Config) { c.TLS = &unverified }},
		{"verification only", map[string]string{"DOCKER_TLS_VERIFY": "1", "HOME": "/home/me"}, Config{}, func(c *Config) { c.TLS = home }},
		{"own certificates", map[string]string{"DOCKER_CERT_PATH": "/certs"}, Config{TLS: &httpclient.TLS{CAFile: "/own"}}, func(c *Config) { c.TLS = &httpclient.TLS{CAFile: "/own"} }},
		{"other own values", nil, Config{Timeout: time.Second, MaxConnections: 3, ResourceInterval: time.Minute}, func(c *Config) {
			c.Timeout, c.MaxConnections, c.ResourceInterval = time.Second, 3, time.Minute
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clearEnvironment(t)
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			want := plain
			test.want(&want)
			got := test.given
			got.SetDefaults()
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("defaults (-want +got):\n%s", difference)
			}
			if errs := got.Validate(); errs != nil {
				t.Errorf("Validate() of the defaults = %v, want no errors", errs)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	clearEnvironment(t)
	const form = `must be the address of a Docker engine, such as "unix:///var/run/docker.sock", "tcp://192.0.2.1:2376" or "ssh://me@192.0.2.1"`
	for _, test := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"tcp", func(c *Config) { c.Host = "tcp://[2001:db8::1]:2376" }, ""},
		{"ssh", func(c *Config) { c.Host = "ssh://me@host:22" }, ""},
		{"ssh with a socket", func(c *Config) { c.Host = "ssh://me@host/run/user/1000/docker.sock" }, ""},
		{"a path", func(c *Config) { c.Host = "/var/run/docker.sock" }, `host = "/var/run/docker.sock": ` + form},
		{"unix without a path", func(c *Config) { c.Host = "unix://" }, `host = "unix://": ` + form},
		{"unix with two slashes", func(c *Config) { c.Host = "unix://var/run/docker.sock" }, `host = "unix://var/run/docker.sock": ` + form},
		{"tcp without a port", func(c *Config) { c.Host = "tcp://192.0.2.1" }, `host = "tcp://192.0.2.1": ` + form + settings.PortRange},
		{"tcp with credentials", func(c *Config) { c.Host = "tcp://me:secret@192.0.2.1:2376" }, `host: must not contain credentials: use tls.cert_file and tls.key_file`},
		{"ssh with a password", func(c *Config) { c.Host = "ssh://me:secret@192.0.2.1" }, "host: " + form + ": ssh host connection is not valid: invalid SSH URL: plain-text password is not supported"},
		{"https", func(c *Config) { c.Host = "https://192.0.2.1:2376" }, `host = "https://192.0.2.1:2376": must begin with tcp://; add a tls table to use TLS`},
		{"no key", func(c *Config) { c.TLS = &httpclient.TLS{CertFile: "/cert"} }, `tls.key_file: is required with cert_file`},
		{"no certificate", func(c *Config) { c.TLS = &httpclient.TLS{KeyFile: "/key"} }, `tls.cert_file: is required with key_file`},
		{"no version", func(c *Config) { c.APIVersion = "v1.41" }, `api_version = "v1.41": must be a version of the Engine API, such as "1.41"`},
		{"old version", func(c *Config) { c.APIVersion = "1.40" }, `api_version = "1.40": must be from 1.41 to 1.51`},
		{"new version", func(c *Config) { c.APIVersion = "1.100" }, `api_version = "1.100": must be from 1.41 to 1.51`},
		{"timeout", func(c *Config) { c.Timeout = -time.Second }, `timeout = "-1s": must be more than 0, such as "10s"`},
		{"connections", func(c *Config) { c.MaxConnections = 4097 }, `max_connections = 4097: must be from 1 to 4096`},
		{"interval", func(c *Config) { c.ResourceInterval = time.Millisecond }, `resource_interval = "1ms": must be at least 1s`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c Config
			c.SetDefaults()
			test.change(&c)
			errs := c.Validate()
			if test.want == "" {
				if errs != nil {
					t.Errorf("Validate() = %v, want no errors", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Error() != test.want {
				t.Errorf("Validate() =\n%v\nwant\n%s", errs, test.want)
			}
		})
	}
}

func TestConnections(t *testing.T) {
	for _, test := range []struct {
		config Config
		want   int
	}{
		{Config{Host: defaultHost}, defaultMaxConnections},
		{Config{Host: "ssh://me@host"}, defaultSSHConnections},
		{Config{Host: "ssh://me@host", MaxConnections: 20}, 20},
	} {
		if got := test.config.connections(); got != test.want {
			t.Errorf("%s: connections = %d, want %d", test.config.Host, got, test.want)
		}
	}
}
