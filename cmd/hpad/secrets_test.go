package main

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/settings/webtest"
)

func cloudsWithSecrets(t *testing.T, dir, secret string) string {
	t.Helper()
	file := filepath.Join(dir, "secret")
	aws := webtest.Write(t, dir, "aws", "[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = "+secret+"\naws_session_token = "+secret+"\n")
	text := fmt.Sprintf(`
[fleets.aws]
kind             = "awsasg"
region           = "eu-central-1"
timeout          = "2s"
credentials_file = %[1]q
endpoints        = { auto_scaling = "http://127.0.0.1:1", ec2 = "http://127.0.0.1:1", sts = "http://127.0.0.1:1" }
[autoscalers.aws]
target       = { fleet = "aws", group = "web" }
max_replicas = 2
metrics      = [{ type = "External", name = "works", source = "basic", query = "fine", value = 1 }]
victims      = "unhealthy-first"
[autoscalers.aws.drain]
kind         = "webhook"
url          = "http://127.0.0.1:1"
token_file   = %[2]q
headers      = { X-Key = %[3]q }
header_files = { X-Other = %[2]q }

[fleets.azure]
kind                       = "azurevmss"
timeout                    = "2s"
subscription               = "00000000-0000-0000-0000-000000000000"
tenant_id                  = "11111111-1111-1111-1111-111111111111"
client_id                  = "22222222-2222-2222-2222-222222222222"
client_secret_file         = %[2]q
endpoint                   = "https://127.0.0.1:1"
authority_host             = "https://127.0.0.1:1"
disable_instance_discovery = true
[autoscalers.azure]
target       = { fleet = "azure", resource_group = "shop", scale_set = "web" }
max_replicas = 2
metrics      = [{ type = "External", name = "works", source = "basic", query = "fine", value = 1 }]
`, aws, file, secret)
	prom := "[sources.basic]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:1\"\n"
	if _, err := config.Parse("clouds.toml", []byte(prom+text)); err != nil {
		if strings.Contains(err.Error(), "is not part of this build") {
			return ""
		}
		t.Fatal(err)
	}
	return text
}

// allEvaluated reports whether every autoscaler has been evaluated.
func allEvaluated(t *testing.T, r *running) bool {
	t.Helper()
	views, err := api.NewClient(r.socket).Autoscalers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(views, func(view api.Autoscaler) bool { return view.Evaluation.Last.IsZero() })
}

// TestNoSecretIsShown runs a daemon in which every secret has the same value, with working and
// failing sources. It then searches the daemon's output and files for this value.
func TestNoSecretIsShown(t *testing.T) {
	const secret = "hunter2"
	var sent atomic.Int32 // number of requests that contained the secret
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if password != secret && r.Header.Get("Authorization") != "Bearer "+secret || r.Header.Get("X-Key") != secret {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		sent.Add(1)
		if r.URL.Path == "/document" {
			_, _ = fmt.Fprintf(w, `{"password": %q, "broker": "amqp://shop:%s@127.0.0.1/", "jobs": null}`, secret, secret)
			return
		}
		if query := r.FormValue("query"); strings.HasPrefix(query, "broken") {
			http.Error(w, "out of order: "+query, http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"1"]}]}}`)
	}))
	defer prometheus.Close()
	dir := openDir(t)
	file := webtest.Write(t, dir, "secret", secret+"\n")
	webConfig := webtest.Write(t, dir, "web.yml", "basic_auth_users:\n  alice: "+webtest.Hash(t, secret)+"\n")
	clouds := cloudsWithSecrets(t, dir, secret)
	r := runConfig(t, dir, fmt.Sprintf(`web_config = %[1]q
sync_period = "1s"

[fleets.local]
kind = "process"
[fleets.local.services.worker]
command = ["/bin/sh", "-c", "DB_PASSWORD=%[2]s exec sleep 600", "--password", %[2]q, "--token=%[2]s"]
args    = ["-p", %[2]q, "API_KEY=%[2]s", "amqp://shop:%[2]s@127.0.0.1/"]
env     = { KEY = %[2]q }
[fleets.local.services.broken]
command = ["/nonexistent/program", "--secret", %[2]q]
env     = { KEY = %[2]q }

[sources.basic]
kind       = "prometheus"
url        = %[3]q
basic_auth = { username = "hpad", password_file = %[4]q }
headers    = { X-Key = %[2]q }
[sources.bearer]
kind       = "prometheus"
url        = %[3]q
token_file = %[4]q
headers    = { X-Key = %[2]q }
[sources.gone]
kind       = "prometheus"
url        = "http://127.0.0.1:1"
token_file = %[4]q
headers    = { X-Key = %[2]q }

[sources.document]
kind       = "http"
url        = "%[3]s/document?token=%[2]s"
basic_auth = { username = "hpad", password_file = %[4]q }
headers    = { X-Key = %[2]q }
[sources.program]
kind    = "exec"
command = ["/bin/sh", "-c", "echo \"login failed: password=$DB_PASSWORD\" >&2; exit 3", "sh", "--token=%[2]s", "-p", %[2]q]
env     = { DB_PASSWORD = %[2]q }

[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
max_replicas = 2
metrics      = [
  { type = "External", name = "document", source = "document", query = "$.jobs", value = 1 },
  { type = "External", name = "broker", source = "document", query = "$.broker", value = 1 },
  { type = "External", name = "member", source = "document", query = "$[?@.password=='%[2]s']", value = 1 },
  { type = "External", name = "program", source = "program", value = 1 },
  { type = "External", name = "works", source = "basic", query = "fine", value = 1 },
  { type = "External", name = "fails", source = "bearer", query = "broken", value = 1 },
  { type = "External", name = "labels", source = "bearer", query = "broken{token='%[2]s', api_key=\"%[2]s\"}", select = { token = %[2]q }, value = 1 },
  { type = "External", name = "gone", source = "gone", query = "fine", value = 1 },
]
[fleets.nomad]
kind       = "nomad"
address    = "http://127.0.0.1:1"
token_file = %[4]q
basic_auth = { username = "hpad", password_file = %[4]q }
[fleets.shop]
kind = "compose"
host = "unix:///nonexistent/docker.sock"
[[fleets.shop.services."shop/web".pre_stop]]
command     = ["/bin/drain", "--token", %[2]q]
environment = { GREETING = %[2]q }
[autoscalers.nomad]
target       = { fleet = "nomad", job = "web", group = "web" }
max_replicas = 2
metrics      = [{ type = "External", name = "works", source = "basic", query = "fine", value = 1 }]
%[5]s
[autoscalers.broken]
target       = { fleet = "local", service = "broken" }
max_replicas = 2
metrics      = [{ type = "External", name = "works", source = "basic", query = "fine", value = 1 }]
`, webConfig, secret, prometheus.URL, file, clouds))

	signed := func(r *http.Request) { r.SetBasicAuth("alice", secret) }
	outputs := map[string]string{}
	deadline := time.Now().Add(time.Minute)
	for sent.Load() < 4 || !allEvaluated(t, r) || !strings.Contains(outputs["explain"], "connection refused") || !strings.Contains(outputs["explain"], "500") ||
		!strings.Contains(outputs["explain"], "exit status 3: login failed") || !strings.Contains(outputs["explain"], "is null instead of a number") {
		if time.Now().After(deadline) {
			t.Fatalf("requests with the secret = %d; explain printed\n%s\nlog:\n%s", sent.Load(), outputs["explain"], r.log.String())
		}
		<-time.After(20 * time.Millisecond)
		_, out, errs := r.hpad("explain", "worker", "--socket", r.socket)
		outputs["explain"] = out + errs
	}
	for _, name := range []string{"aws", "azure"} {
		_, out, errs := r.hpad("describe", name, "--socket", r.socket)
		if outputs["describe "+name] = out + errs; clouds != "" && !strings.Contains(out, "read fleet") {
			t.Errorf("hpad describe %s does not show the failure:\n%s%s", name, out, errs)
		}
	}
	webtest.Write(t, dir, "hpad.toml", "[sources.x]\nkind = \"prometheus\"\nurl = \"http://a:"+secret+"@b\"\npassword = \""+secret+"\"\nheaders = { Authorization = \""+secret+"\" }\n")
	for _, command := range [][]string{
		{"check", filepath.Join(dir, "hpad.toml")},
		{"reload"},
		{"get"},
		{"get", "-o", "json"},
		{"get", "-o", "wide"},
		{"describe", "worker"},
		{"describe", "worker", "-o", "json"},
		{"describe", "broken", "-o", "yaml"},
		{"history", "worker"},
		{"history", "worker", "-o", "json"},
		{"history", "--verify", "-o", "json"},
		{"explain", "worker", "-o", "json"},
		{"explain", "broken"},
	} {
		if command[0] != "check" {
			command = append(command, "--socket", r.socket)
		}
		_, out, errs := r.hpad(command...)
		outputs["hpad "+strings.Join(command, " ")] = out + errs
	}
	for _, path := range []string{"/api/v1/status/config", "/api/v1/autoscalers", "/api/v1/autoscalers/worker/explain", "/api/v1/autoscalers/worker/history", "/api/v1/discovery", "/api/v1/openapi.yaml", "/-/ready", "/-/healthy", "/metrics"} {
		status, body := r.request(http.MethodGet, path, signed)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
		outputs[path] = body
	}
	if config := outputs["/api/v1/status/config"]; !strings.Contains(config, "X-Key") || !strings.Contains(config, "redacted") {
		t.Errorf("the configuration is %s, want redacted values in it", config)
	}
	_, outputs["a wrong name"] = r.request(http.MethodGet, "/", func(r *http.Request) { r.SetBasicAuth("bob", secret) })
	outputs["the log"] = r.log.String()
	if !strings.Contains(outputs["the log"], "connection refused") {
		t.Errorf("the log does not show the failure:\n%s", outputs["the log"])
	}
	err := filepath.WalkDir(filepath.Join(dir, "state"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() { // the output of processes passes through a FIFO
			return err
		}
		data, err := os.ReadFile(path)
		outputs[path] = string(data)
		return err
	})
	if err != nil || outputs[filepath.Join(dir, "state", "state.db")] == "" {
		t.Errorf("the state cannot be read: %v", err)
	}
	for name, text := range outputs {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte("hpad:" + secret))} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s contains the secret: …%q…", name, text[max(0, at-100):min(len(text), at+50)])
			}
		}
	}
}
